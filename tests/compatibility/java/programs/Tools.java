import java.io.BufferedInputStream;
import java.io.BufferedOutputStream;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.EOFException;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.InputStream;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.apache.kafka.common.utils.Exit;

/**
 * Runs Kafka's command line tools one after the other in one JVM.
 *
 * <p>A request on stdin is a count, so many strings (the main class and its arguments) and a string
 * that is the tool's input. The answer on stdout is the exit code and two strings, what the tool
 * wrote to stdout and to stderr. Integers have four bytes, strings are their length and UTF-8, all
 * big endian. The program ends with its stdin.
 *
 * <p>The classes of the tools' own jars are loaded again for each run, because some keep counts in
 * static fields; those of the clients are shared.
 */
public class Tools {
    private static final class Exited extends RuntimeException {}

    private static Integer exitCode;
    private static final List<Runnable> hooks = new ArrayList<>();

    public static void main(String[] jars) throws Exception {
        DataInputStream requests = new DataInputStream(new BufferedInputStream(System.in));
        DataOutputStream answers = new DataOutputStream(
            new BufferedOutputStream(new FileOutputStream(FileDescriptor.out)));
        Exit.Procedure exit = (code, message) -> {
            exitCode = exitCode == null ? code : exitCode;
            throw new Exited();
        };
        Exit.setExitProcedure(exit);
        Exit.setHaltProcedure(exit);
        Exit.setShutdownHookAdder((name, hook) -> hooks.add(hook));
        URL[] places = new URL[jars.length];
        for (int place = 0; place < jars.length; place++) {
            places[place] = Path.of(jars[place]).toUri().toURL();
        }
        while (true) {
            int count;
            try {
                count = requests.readInt();
            } catch (EOFException e) {
                return;
            }
            String[] words = new String[count];
            for (int place = 0; place < count; place++) {
                words[place] = new String(read(requests), StandardCharsets.UTF_8);
            }
            serve(places, words, read(requests), answers);
        }
    }

    private static void serve(
        URL[] places, String[] words, byte[] input, DataOutputStream answers) throws Exception {
        InputStream in = System.in;
        PrintStream out = System.out;
        PrintStream err = System.err;
        ByteArrayOutputStream toOut = new ByteArrayOutputStream();
        ByteArrayOutputStream toErr = new ByteArrayOutputStream();
        exitCode = null;
        hooks.clear();
        System.setIn(new ByteArrayInputStream(input));
        System.setOut(new PrintStream(toOut, true, StandardCharsets.UTF_8));
        System.setErr(new PrintStream(toErr, true, StandardCharsets.UTF_8));
        try (URLClassLoader loader = new Afresh(places)) {
            Thread.currentThread().setContextClassLoader(loader);
            int code = run(loader, words);
            for (Runnable hook : hooks) {
                hook.run();
            }
            System.out.flush();
            System.err.flush();
            answers.writeInt(code);
            write(answers, toOut.toByteArray());
            write(answers, toErr.toByteArray());
            answers.flush();
        } finally {
            System.setIn(in);
            System.setOut(out);
            System.setErr(err);
        }
    }

    private static int run(ClassLoader loader, String[] words) throws Exception {
        String[] arguments = java.util.Arrays.copyOfRange(words, 1, words.length);
        try {
            loader.loadClass(words[0]).getMethod("main", String[].class)
                .invoke(null, (Object) arguments);
        } catch (InvocationTargetException e) {
            if (!(e.getCause() instanceof Exited)) {
                e.getCause().printStackTrace();
                return exitCode == null ? 1 : exitCode;
            }
        }
        return exitCode == null ? 0 : exitCode;
    }

    private static byte[] read(DataInputStream from) throws Exception {
        return from.readNBytes(from.readInt());
    }

    private static void write(DataOutputStream to, byte[] bytes) throws Exception {
        to.writeInt(bytes.length);
        to.write(bytes);
    }

    /** Loads the classes of some jars itself and leaves all others to its parent. */
    private static final class Afresh extends URLClassLoader {
        Afresh(URL[] places) {
            super(places, Tools.class.getClassLoader());
        }

        @Override
        protected Class<?> loadClass(String name, boolean resolve) throws ClassNotFoundException {
            synchronized (getClassLoadingLock(name)) {
                Class<?> found = findLoadedClass(name);
                if (found == null) {
                    try {
                        found = findClass(name);
                    } catch (ClassNotFoundException e) {
                        return super.loadClass(name, resolve);
                    }
                }
                return found;
            }
        }
    }
}
