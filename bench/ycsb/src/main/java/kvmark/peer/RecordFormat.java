package kvmark.peer;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Set;
import site.ycsb.ByteArrayByteIterator;
import site.ycsb.ByteIterator;

/**
 * A record in bytes: for each field length of name, name, length of value, value; lengths are
 * big-endian ints.
 */
final class RecordFormat {
  private RecordFormat() {
  }

  static byte[] encode(final Map<String, byte[]> fields) {
    int length = 0;
    for (final Map.Entry<String, byte[]> field : fields.entrySet()) {
      length += 2 * Integer.BYTES + field.getKey().length() + field.getValue().length;
    }
    final ByteBuffer record = ByteBuffer.allocate(length);
    for (final Map.Entry<String, byte[]> field : fields.entrySet()) {
      // Field names are a prefix and a number: one byte per character.
      put(record, field.getKey().getBytes(StandardCharsets.ISO_8859_1));
      put(record, field.getValue());
    }
    return record.array();
  }

  private static void put(final ByteBuffer record, final byte[] bytes) {
    record.putInt(bytes.length).put(bytes);
  }

  /** Adds the wanted fields, or all for null, as views of the record. */
  static void decode(final byte[] record, final Set<String> wanted,
      final Map<String, ByteIterator> result) {
    final ByteBuffer rest = ByteBuffer.wrap(record);
    while (rest.hasRemaining()) {
      final String name = name(rest);
      final int length = rest.getInt();
      if (wanted == null || wanted.contains(name)) {
        result.put(name, new ByteArrayByteIterator(record, rest.position(), length));
      }
      rest.position(rest.position() + length);
    }
  }

  /** All fields as copies, in the record's order. */
  static Map<String, byte[]> fields(final byte[] record) {
    final Map<String, byte[]> fields = new LinkedHashMap<>();
    final ByteBuffer rest = ByteBuffer.wrap(record);
    while (rest.hasRemaining()) {
      final String name = name(rest);
      final byte[] value = new byte[rest.getInt()];
      rest.get(value);
      fields.put(name, value);
    }
    return fields;
  }

  private static String name(final ByteBuffer rest) {
    final int length = rest.getInt();
    final int start = rest.position();
    rest.position(start + length);
    return new String(rest.array(), start, length, StandardCharsets.ISO_8859_1);
  }
}
