package kvmark;

import java.io.*;
import java.lang.management.*;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.*;
import site.ycsb.*;

/**
 * One client's instance of a YCSB binding.
 *
 * <p>A request and its answer are in one direct buffer, so that an operation is one call from
 * outside. Bytes follow their length, and numbers are big-endian ints.
 */
public final class BindingClient {
  private static final int DONE = 0;
  private static final int MISSING = 1;
  private static final int FAILED = 2;
  private static final int END = -1;
  private static final int ALL = -2;
  private static final int ALL_BY_NAME = -1;
  private static final LastLine OUTPUT = new LastLine();

  static {
    System.setOut(new PrintStream(OUTPUT, true));
    System.setErr(System.out);
  }

  private final DB db;
  private final String table;
  private final String[] names;
  private final Map<String, Integer> places = new LinkedHashMap<>();
  private final ByteBuffer buffer;

  private BindingClient(final ByteBuffer buffer, final DB db, final String table,
      final String[] names) {
    this.buffer = buffer;
    this.db = db;
    this.table = table;
    this.names = names;
    for (int place = 0; place < names.length; place++) {
      places.put(names[place], place);
    }
  }

  /**
   * A client of a binding that is ready, or a text with the reason why there is none.
   *
   * @param text words with NUL between them: class, table, number and names of the fields, and name
   *     and value of each property
   */
  public static Object open(final ByteBuffer buffer, final String text) {
    Thread.currentThread().setContextClassLoader(ClassLoader.getSystemClassLoader());
    final String[] words = text.split("\0", -1);
    final String binding = words[0];
    final int end = 3 + Integer.parseInt(words[2]);
    final Properties properties = new Properties();
    for (int place = end; place < words.length; place += 2) {
      properties.setProperty(words[place], words[place + 1]);
    }
    String step = "be loaded";
    try {
      final Class<?> type = Class.forName(binding);
      if (!DB.class.isAssignableFrom(type)) {
        return "the class " + binding + " isn't a YCSB binding: it doesn't extend site.ycsb.DB";
      }
      step = "be created";
      final DB db = (DB) type.getDeclaredConstructor().newInstance();
      db.setProperties(properties);
      step = "be initialised";
      db.init();
      return new BindingClient(buffer, db, words[1], Arrays.copyOfRange(words, 3, end));
    } catch (final ClassNotFoundException absent) {
      return "there is no class " + binding + " on the class path";
    } catch (final Throwable failure) {
      return "the binding " + binding + " can't " + step + " (" + described(failure)
          // Several instances may fail at once: each says it.
          + OUTPUT.show() + ")";
    }
  }

  /** Executes the request in the buffer, and puts the answer there. */
  public int call() {
    buffer.clear();
    try {
      return execute(buffer.getInt(), buffer.getInt(), buffer.getInt(), buffer.getInt() == 1);
    } catch (final Throwable failure) {
      return failed("EXCEPTION (" + described(failure) + ")");
    }
  }

  /**
   * Executes a request, whose key and values follow in the buffer.
   *
   * @param kind the first letter of the operation's name
   * @param columns the field to read, or all
   * @param count the records of a scan, or the values of a write
   * @param wantsValues whether the answer has the records' values
   */
  private int execute(final int kind, final int columns, final int count,
      final boolean wantsValues) {
    final String key = new String(bytes(), StandardCharsets.UTF_8);
    final Vector<HashMap<String, ByteIterator>> rows = new Vector<>();
    switch (kind) {
      case 'R':
        rows.add(new HashMap<>());
        return answered(db.read(table, key, wanted(columns), rows.get(0)), rows, wantsValues);
      case 'S':
        return answered(db.scan(table, key, count, wanted(columns), rows), rows, wantsValues);
      case 'U':
        return answered(db.update(table, key, values(count)), rows, false);
      case 'I':
        return answered(db.insert(table, key, values(count)), rows, false);
      default:
        return answered(db.delete(table, key), rows, false);
    }
  }

  private Set<String> wanted(final int columns) {
    if (columns == ALL) {
      return null;
    }
    return columns == ALL_BY_NAME ? places.keySet() : Collections.singleton(names[columns]);
  }

  private byte[] bytes() {
    final byte[] bytes = new byte[buffer.getInt()];
    buffer.get(bytes);
    return bytes;
  }

  private Map<String, ByteIterator> values(final int count) {
    final Map<String, ByteIterator> values = new HashMap<>();
    for (int left = count; left > 0; left--) {
      final String name = names[buffer.getInt()];
      values.put(name, new ByteArrayByteIterator(bytes()));
    }
    return values;
  }

  /** Puts the number of records and, if wanted, the records. */
  private int answered(final Status status, final List<HashMap<String, ByteIterator>> rows,
      final boolean wantsValues) {
    if (Status.NOT_FOUND.equals(status)) {
      return MISSING;
    }
    if (!Status.OK.equals(status)) {
      return failed(status == null ? "no status" : status.getName());
    }
    buffer.clear();
    buffer.putInt(rows.size());
    if (wantsValues) {
      rows.forEach(this::put);
    }
    return DONE;
  }

  /** Puts the place and value of each field, and an end. */
  private void put(final Map<String, ByteIterator> row) {
    for (final Map.Entry<String, ByteIterator> field : row.entrySet()) {
      final Integer place = places.get(field.getKey());
      // Some bindings add the key.
      if (place != null) {
        buffer.putInt(place);
        put(field.getValue().toArray());
      }
    }
    buffer.putInt(END);
  }

  private int failed(final String status) {
    final String line = OUTPUT.take();
    buffer.clear();
    put((line.isEmpty() ? status : status + ": " + line).getBytes(StandardCharsets.UTF_8));
    return FAILED;
  }

  private void put(final byte[] bytes) {
    buffer.putInt(bytes.length).put(bytes);
  }

  /** Ends the binding's instance. */
  public void close() throws Exception {
    db.cleanup();
  }

  /** Versions of YCSB's core and of Java. */
  public static String versions() {
    final String core = DB.class.getProtectionDomain().getCodeSource().getLocation().getPath();
    final String version = core.replaceAll(".*/(core-)?|\\.jar$", "");
    return "YCSB " + version + ", Java " + System.getProperty("java.version");
  }

  /** Number or milliseconds of the collections of garbage during which the program paused. */
  public static long collections(final boolean counted) {
    long sum = 0;
    for (final GarbageCollectorMXBean one : ManagementFactory.getGarbageCollectorMXBeans()) {
      // Those of ZGC and Shenandoah run beside the program.
      if (!one.getName().endsWith("Cycles")) {
        sum += counted ? one.getCollectionCount() : one.getCollectionTime();
      }
    }
    return sum;
  }

  /** The text of a failure's cause. */
  private static String described(final Throwable failure) {
    Throwable cause = failure;
    while (cause.getCause() != null) {
      cause = cause.getCause();
    }
    return String.valueOf(cause).trim();
  }

  /** What bindings print, of which the last line is kept. */
  private static final class LastLine extends OutputStream {
    private static final int LONGEST = 500;
    private final ByteArrayOutputStream line = new ByteArrayOutputStream();
    private String last = "";

    @Override
    public synchronized void write(final int letter) {
      if (letter != '\n' && line.size() < LONGEST) {
        line.write(letter);
      } else if (letter == '\n' && line.size() > 0) {
        last = line.toString().trim();
        line.reset();
      }
    }

    synchronized String show() {
      return last.isEmpty() ? "" : "; it printed: " + last;
    }

    synchronized String take() {
      final String taken = last;
      last = "";
      return taken;
    }
  }
}
