#!/bin/sh
# Makes every vector again, with java, javac (17 or newer), mvn and gzip: tests/vectors/make/make.sh
#
# NEWEST writes all that it knows, OLDER the messages and versions that NEWEST has no more.
set -eu
NEWEST=4.4.0
OLDER=3.9.2
SETTINGS=4.3.1 # of which all settings are known
make=$(cd "$(dirname "$0")" && pwd)
vectors=$(dirname "$make")
build=$vectors/../../build/vectors

fetch() { # RELEASE [PROFILE]
    mvn -q -B -Dstyle.color=never -f "$make/pom.xml" ${2:+-P "$2"} dependency:copy-dependencies \
        -Dkafka.version="$1" -DincludeScope=runtime -DoutputDirectory="$build/jars-$1"
}

run() { # RELEASE PROGRAM ARGUMENT...
    release=$1
    program=$2
    shift 2
    javac -Xlint:all -cp "$build/jars-$release/*" -d "$build/classes-$release" "$make/$program.java"
    java -cp "$build/jars-$release/*:$build/classes-$release" "$program" "$@"
}

rm -rf "$build"
fetch $NEWEST coordinators
fetch $OLDER
run $NEWEST MakeMessages "$build/kafka-$NEWEST"
run $NEWEST MakeBatches "$build/kafka-$NEWEST"
run $OLDER MakeMessages "$build/kafka-$OLDER" "$build/kafka-$NEWEST"
fetch $SETTINGS settings
run $SETTINGS MakeSettings "$build/kafka-$SETTINGS"
for release in $NEWEST $OLDER $SETTINGS; do
    mkdir -p "$vectors/kafka-$release"
    for file in "$build/kafka-$release"/*.jsonl; do
        gzip -9 -n -c "$file" >"$vectors/kafka-$release/$(basename "$file").gz"
    done
done
