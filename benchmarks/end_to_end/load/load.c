/* A Kafka load generator for benchmarks: one thread, epoll, frames encoded before the run.
 *
 *     load COMMAND --port PORT --topic TOPIC [OPTION]...
 *
 * Prints its results as one JSON object. Exits with 1 if offsets are missing, duplicated or out of
 * order or requests failed, and with 2 if it could not continue. It costs little more than its
 * system calls, which leaves the rest of the machine to the broker. */
#include "load/load.h"

#include <getopt.h>
#include <signal.h>
#include <unistd.h>

#include "kernel/crc32_hardware.h"
#include "kernel/crc32c_hardware.h"
#include "wire/tools.h"

enum { GIVE_UP_SECONDS = 60 }; /* a broker that does not answer must not block the benchmarks */

static void give_up(int signal_number)
{
    (void)signal_number;
    static const char message[] = "the broker did not answer in time\n";
    if (write(STDERR_FILENO, message, sizeof message - 1) < 0)
        _exit(3);
    _exit(2);
}

static const struct {
    const char *name;
    int64_t (*run)(const struct options *);
    const char *about;
} commands[] = {
    {"produce", load_produce, "batches, pipelined or not; latency of acknowledgements"},
    {"fetch", load_fetch, "partitions from start to end, repeatedly"},
    {"rustlog", load_rustlog, "produce in RustLog's binary form, pipelined or not"},
    {"rustlog-fetch", load_rustlog_fetch, "partitions repeatedly in RustLog's binary form"},
    {"cursus", load_cursus, "one frame of Cursus repeatedly, pipelined or not"},
    {"cursus-events", load_cursus_events, "events for Cursus's streams, one at a time"},
    {"cursus-stream", load_cursus_stream, "partitions repeatedly by Cursus's STREAM"},
    {"latency", load_latency, "single records at a constant rate, end to end to a consumer"},
    {"lines", load_lines, "one line of V1 repeatedly, pipelined or not"},
    {"create", load_create, "create a topic and wait until it is ready"},
    {"delete", load_delete, "delete a topic"},
    {"idle", load_idle, "idle connections until standard input ends"},
    {"ready", load_ready, "seconds from --since to the first reply and accepted produce"},
};

enum { COMMANDS = sizeof commands / sizeof *commands };

static const struct option names[] = {
    {"host", required_argument, NULL, 'h'},
    {"port", required_argument, NULL, 'p'},
    {"topic", required_argument, NULL, 't'},
    {"line", required_argument, NULL, 'l'},
    {"batch-file", required_argument, NULL, 'F'},
    {"partitions", required_argument, NULL, 'P'},
    {"connections", required_argument, NULL, 'c'},
    {"in-flight", required_argument, NULL, 'i'},
    {"acks", required_argument, NULL, 'a'},
    {"records", required_argument, NULL, 'r'},
    {"value-bytes", required_argument, NULL, 'v'},
    {"batch-bytes", required_argument, NULL, 'b'},
    {"fetch-bytes", required_argument, NULL, 'f'},
    {"seconds", required_argument, NULL, 's'},
    {"warm-up-seconds", required_argument, NULL, 'w'},
    {"rate", required_argument, NULL, 'R'},
    {"requests", required_argument, NULL, 'n'},
    {"bytes", required_argument, NULL, 'B'},
    {"since-ns", required_argument, NULL, 'S'},
    {"config", required_argument, NULL, 'C'},
    {"verify", no_argument, NULL, 'V'},
    {"spin", no_argument, NULL, 'x'},
    {"old", no_argument, NULL, 'o'},
    {NULL, 0, NULL, 0},
};

static _Noreturn void usage(void)
{
    fputs("load COMMAND [OPTION VALUE]...\ncommands:\n", stderr);
    for (size_t i = 0; i < COMMANDS; i++)
        fprintf(stderr, "  %-14s %s\n", commands[i].name, commands[i].about);
    fputs("options:\n", stderr);
    for (const struct option *option = names; option->name != NULL; option++)
        fprintf(stderr, "  --%s\n", option->name);
    exit(2);
}

static double number(const char *text)
{
    char *end;
    double value = strtod(text, &end);
    if (end == text || *end != '\0')
        die("%s is not a number", text);
    return value;
}

static void take_option(struct options *options, int name, const char *value)
{
    switch (name) {
    case 'h': options->host = value; break;
    case 'p': options->port = (int)number(value); break;
    case 't': options->topic = value; break;
    case 'l': options->line = value; break;
    case 'F': options->batch_file = value; break;
    case 'P': options->partitions = (int)number(value); break;
    case 'c': options->connections = (int)number(value); break;
    case 'i': options->in_flight = (int)number(value); break;
    case 'a': options->acks = (int)number(value); break;
    case 'r': options->records = (int)number(value); break;
    case 'v': options->value_bytes = (size_t)number(value); break;
    case 'b': options->batch_bytes = (size_t)number(value); break;
    case 'f': options->fetch_bytes = (size_t)number(value); break;
    case 's': options->seconds = number(value); break;
    case 'w': options->warm_up_seconds = number(value); break;
    case 'R': options->rate = number(value); break;
    case 'n': options->requests = (int64_t)number(value); break;
    case 'B': options->bytes = (int64_t)number(value); break;
    case 'S': options->since_ns = strtoll(value, NULL, 10); break; /* more digits than a double */
    case 'V': options->verify = true; break;
    case 'x': options->spin = true; break;
    case 'o': options->old = true; break;
    case 'C':
        if (options->config_count == TOPIC_CONFIGS_MAX)
            die("at most %d topic configs", TOPIC_CONFIGS_MAX);
        options->configs[options->config_count++] = value;
        break;
    default: usage();
    }
}

static void check_options(const struct options *options)
{
    if (options->port <= 0 || options->port > 65535)
        die("--port is missing or out of range");
    if (options->partitions < 1 || options->connections < 1 || options->acks == 0)
        die("--partitions and --connections are at least 1, --acks is 1 or -1");
    if (options->in_flight < 1 || options->in_flight > QUEUE_PIECES_MAX / 2)
        die("--in-flight is 1 to %d", QUEUE_PIECES_MAX / 2);
}

int main(int count, char **words)
{
    struct options options = {
        .host = "127.0.0.1", .partitions = 1, .connections = 1, .in_flight = 1, .acks = -1,
        .value_bytes = 100, .batch_bytes = 16 << 10, .fetch_bytes = 1 << 20,
    };
    if (count < 2)
        usage();
    for (int name; (name = getopt_long(count - 1, words + 1, "", names, NULL)) != -1;)
        take_option(&options, name, optarg);
    check_options(&options);
    crc32_init();
    crc32c_init();
    signal(SIGALRM, give_up);
    for (size_t i = 0; i < COMMANDS; i++) {
        if (strcmp(words[1], commands[i].name) != 0)
            continue;
        if (commands[i].run != load_idle)
            alarm(GIVE_UP_SECONDS);
        return commands[i].run(&options) != 0;
    }
    usage();
}
