package kvmark.peer;

import com.sun.management.OperatingSystemMXBean;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.lang.management.ManagementFactory;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import java.util.stream.Stream;
import org.rocksdb.BlockBasedTableConfig;
import org.rocksdb.ColumnFamilyDescriptor;
import org.rocksdb.ColumnFamilyHandle;
import org.rocksdb.ColumnFamilyOptions;
import org.rocksdb.CompressionType;
import org.rocksdb.DBOptions;
import org.rocksdb.HyperClockCache;
import org.rocksdb.RocksDB;
import org.rocksdb.RocksDBException;

/**
 * The database that all client threads share: opened by the first, closed by the last.
 *
 * <p>Options are the properties "rocksdb." + name with the names of kvmark's driver.
 */
final class Database {
  private static Database open;
  private static int users;

  final RocksDB db;
  final ColumnFamilyHandle table;
  private final DBOptions options;
  private final List<ColumnFamilyHandle> handles = new ArrayList<>();
  private final long cpuTimeBeforeNs = cpuTimeNs();

  private Database(final Properties properties) throws RocksDBException {
    options = new DBOptions();
    final byte[] name = "usertable".getBytes(StandardCharsets.UTF_8);
    final List<ColumnFamilyDescriptor> families = List.of(
        new ColumnFamilyDescriptor(RocksDB.DEFAULT_COLUMN_FAMILY),
        new ColumnFamilyDescriptor(name, tableOptions(properties)));
    db = RocksDB.open(options, properties.getProperty("rocksdb.path"), families, handles);
    table = handles.get(1);
  }

  private static ColumnFamilyOptions tableOptions(final Properties properties) {
    final long cacheBytes = number(properties, "rocksdb.block_cache_bytes");
    final BlockBasedTableConfig blocks =
        new BlockBasedTableConfig().setBlockCache(new HyperClockCache(cacheBytes, 0, -1, false));
    final String compression = properties.getProperty("rocksdb.compression");
    return new ColumnFamilyOptions()
        .setWriteBufferSize(number(properties, "rocksdb.write_buffer_bytes"))
        .setCompressionType(CompressionType.getCompressionType(compression))
        .setTableFormatConfig(blocks);
  }

  private static long number(final Properties properties, final String name) {
    return Long.parseLong(properties.getProperty(name));
  }

  static synchronized Database acquire(final Properties properties) throws RocksDBException {
    if (open == null) {
      RocksDB.loadLibrary();
      open = new Database(properties);
    }
    users++;
    return open;
  }

  static synchronized void release() {
    users--;
    if (users == 0) {
      open.close();
      open = null;
    }
  }

  /** Prints the process's CPU time while the database was open, in the form of YCSB's lines. */
  private void close() {
    final long spentMs = (cpuTimeNs() - cpuTimeBeforeNs) / 1_000_000;
    System.out.println("[PROCESS], CpuTime(ms), " + spentMs);
    System.out.println("[PROCESS], MaxResident(KiB), " + maxResidentKib());
    handles.forEach(ColumnFamilyHandle::close);
    db.close();
    options.close();
  }

  /** The kernel's high-water mark of this process. */
  private static String maxResidentKib() {
    try (Stream<String> lines = Files.lines(Path.of("/proc/self/status"))) {
      final String line = lines.filter(text -> text.startsWith("VmHWM:")).findFirst().orElseThrow();
      return line.replaceAll("\\D", "");
    } catch (final IOException failure) {
      throw new UncheckedIOException(failure);
    }
  }

  private static long cpuTimeNs() {
    return ManagementFactory.getPlatformMXBean(OperatingSystemMXBean.class).getProcessCpuTime();
  }
}
