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
 * <p>Options are the properties "rocksdb." + name with the names and defaults of kvmark's driver.
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
    final boolean create = Boolean.parseBoolean(properties.getProperty("rocksdb.create"));
    final byte[] name =
        properties.getProperty("table", "usertable").getBytes(StandardCharsets.UTF_8);
    options = new DBOptions().setCreateIfMissing(create).setCreateMissingColumnFamilies(create);
    final List<ColumnFamilyDescriptor> families = List.of(
        new ColumnFamilyDescriptor(RocksDB.DEFAULT_COLUMN_FAMILY),
        new ColumnFamilyDescriptor(name, tableOptions(properties)));
    final String path = properties.getProperty("rocksdb.path");
    if (path == null) {
      throw new RocksDBException("the property rocksdb.path is missing");
    }
    db = RocksDB.open(options, path, families, handles);
    table = handles.get(1);
  }

  private static ColumnFamilyOptions tableOptions(final Properties properties) {
    final long cacheBytes = number(properties, "rocksdb.block_cache_bytes", 32L << 20);
    final BlockBasedTableConfig blocks =
        new BlockBasedTableConfig().setBlockCache(new HyperClockCache(cacheBytes, 0, -1, false));
    return new ColumnFamilyOptions()
        .setWriteBufferSize(number(properties, "rocksdb.write_buffer_bytes", 64L << 20))
        .setCompressionType(compression(properties.getProperty("rocksdb.compression", "lz4")))
        .setTableFormatConfig(blocks);
  }

  private static long number(final Properties properties, final String name, final long otherwise) {
    return Long.parseLong(properties.getProperty(name, Long.toString(otherwise)));
  }

  private static CompressionType compression(final String word) {
    return switch (word) {
      case "none" -> CompressionType.NO_COMPRESSION;
      case "snappy" -> CompressionType.SNAPPY_COMPRESSION;
      case "lz4" -> CompressionType.LZ4_COMPRESSION;
      case "zstd" -> CompressionType.ZSTD_COMPRESSION;
      default -> throw new IllegalArgumentException("rocksdb.compression can't be " + word);
    };
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

  /** Says what the process spent while the database was open, in the form of YCSB's own lines. */
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
