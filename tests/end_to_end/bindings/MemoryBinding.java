import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import java.util.Vector;
import java.util.concurrent.ConcurrentSkipListMap;
import java.util.concurrent.atomic.AtomicInteger;
import site.ycsb.ByteArrayByteIterator;
import site.ycsb.ByteIterator;
import site.ycsb.DB;
import site.ycsb.DBException;
import site.ycsb.Status;

/** Records in memory, and a fault of each kind. */
public class MemoryBinding extends DB {
  private static final ConcurrentSkipListMap<String, Map<String, byte[]>> RECORDS =
      new ConcurrentSkipListMap<>();
  private static final AtomicInteger UPDATES = new AtomicInteger();
  private String fault;

  @Override
  public void init() throws DBException {
    fault = getProperties().getProperty("fault", "none");
    System.out.println("user " + getProperties().getProperty("login") + " of "
        + getProperties().getProperty("table"));
    if (fault.equals("init")) {
      throw new DBException("no such " + getProperties().getProperty("login"));
    }
  }

  private static void copy(Map<String, byte[]> record, Set<String> fields,
      Map<String, ByteIterator> result) {
    result.put("_id", new ByteArrayByteIterator(new byte[3]));
    record.forEach((name, value) -> {
      if (fields == null || fields.contains(name)) {
        result.put(name, new ByteArrayByteIterator(value));
      }
    });
  }

  @Override
  public Status read(String table, String key, Set<String> fields,
      Map<String, ByteIterator> result) {
    System.out.println("read " + key);
    if (fault.equals("absent")) {
      return Status.ERROR;
    }
    if (fault.equals("throw")) {
      throw new IllegalStateException("out of order");
    }
    if (fault.equals("unavailable")) {
      return Status.SERVICE_UNAVAILABLE;
    }
    Map<String, byte[]> record = RECORDS.get(key);
    if (record == null) {
      return Status.NOT_FOUND;
    }
    copy(record, fields, result);
    return Status.OK;
  }

  @Override
  public Status scan(String table, String start, int count, Set<String> fields,
      Vector<HashMap<String, ByteIterator>> result) {
    RECORDS.tailMap(start).values().stream().limit(count).forEach(record -> {
      HashMap<String, ByteIterator> row = new HashMap<>();
      copy(record, fields, row);
      result.add(row);
    });
    return Status.OK;
  }

  @Override
  public Status update(String table, String key, Map<String, ByteIterator> values) {
    if (fault.equals("hang")) {
      try {
        Thread.sleep(3_600_000);
      } catch (InterruptedException ended) {
        return Status.ERROR;
      }
    }
    if (fault.equals("lose") && UPDATES.incrementAndGet() % 50 == 0) {
      return Status.OK;
    }
    Map<String, byte[]> written = bytes(values);
    return RECORDS.computeIfPresent(key, (name, record) -> merged(record, written)) == null
        ? Status.NOT_FOUND : Status.OK;
  }

  @Override
  public Status insert(String table, String key, Map<String, ByteIterator> values) {
    RECORDS.put(key, bytes(values));
    return Status.OK;
  }

  private static Map<String, byte[]> bytes(Map<String, ByteIterator> values) {
    Map<String, byte[]> bytes = new HashMap<>();
    values.forEach((name, value) -> bytes.put(name, value.toArray()));
    return bytes;
  }

  private static Map<String, byte[]> merged(Map<String, byte[]> record,
      Map<String, byte[]> values) {
    Map<String, byte[]> merged = new HashMap<>(record);
    merged.putAll(values);
    return merged;
  }

  @Override
  public Status delete(String table, String key) {
    return RECORDS.remove(key) == null ? Status.NOT_FOUND : Status.OK;
  }
}
