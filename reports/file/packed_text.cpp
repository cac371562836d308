// SPDX-License-Identifier: Apache-2.0
#include "reports/file/packed_text.h"

#define ZLIB_CONST  // the input is only read
#include <zlib.h>

#include "harness/core/error.h"

namespace lossgrid {
namespace {

constexpr int kGzip = 16;  // added to the logarithm of the window (zlib.h)
constexpr std::size_t kPiece = std::size_t{1} << 20;  // sizes of a stream have 32 bits

/// Moves the next piece of `bytes` to the stream.
void feed(std::string_view& bytes, z_stream& stream) {
  if (stream.avail_in > 0) return;
  const std::string_view piece = bytes.substr(0, kPiece);
  bytes.remove_prefix(piece.size());
  stream.next_in = reinterpret_cast<const Bytef*>(piece.data());
  stream.avail_in = static_cast<uInt>(piece.size());
}

/// Compression stream; owns its state.
class Deflater {
 public:
  Deflater() {
    constexpr int kMemoryLevel = 8;
    check(deflateInit2(&stream_, Z_DEFAULT_COMPRESSION, Z_DEFLATED, MAX_WBITS + kGzip, kMemoryLevel,
                       Z_DEFAULT_STRATEGY));
  }
  ~Deflater() { deflateEnd(&stream_); }
  Deflater(const Deflater&) = delete;
  Deflater& operator=(const Deflater&) = delete;

  std::string operator()(std::string_view text) {
    std::string out;
    std::string buffer(kPiece, '\0');
    int status = Z_OK;
    while (status != Z_STREAM_END) {
      feed(text, stream_);
      stream_.next_out = reinterpret_cast<Bytef*>(buffer.data());
      stream_.avail_out = static_cast<uInt>(kPiece);
      status = deflate(&stream_, text.empty() ? Z_FINISH : Z_NO_FLUSH);
      if (status != Z_STREAM_END) check(status);
      out.append(buffer, 0, kPiece - stream_.avail_out);
    }
    return out;
  }

 private:
  static void check(int status) {
    if (status == Z_OK) return;
    throw Error(ErrorCode::internal, fmt::format("zlib: {}", zError(status)));
  }

  z_stream stream_{};
};

/// Decompression stream; owns its state.
class Inflater {
 public:
  Inflater() {
    if (inflateInit2(&stream_, MAX_WBITS + kGzip) != Z_OK) {
      throw Error(ErrorCode::internal, "zlib: no memory");
    }
  }
  ~Inflater() { inflateEnd(&stream_); }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;

  std::string operator()(std::string_view bytes, std::size_t most_bytes) {
    std::string out;
    std::string buffer(kPiece, '\0');
    int status = Z_OK;
    while (status != Z_STREAM_END || !bytes.empty() || stream_.avail_in > 0) {
      if (status == Z_STREAM_END) inflateReset(&stream_);  // another file behind it
      feed(bytes, stream_);
      stream_.next_out = reinterpret_cast<Bytef*>(buffer.data());
      stream_.avail_out = static_cast<uInt>(kPiece);
      status = inflate(&stream_, Z_NO_FLUSH);
      if (status == Z_BUF_ERROR) throw_bad_input("it is a gzip file that was cut off");
      if (status != Z_OK && status != Z_STREAM_END) throw_bad_input("it is a damaged gzip file");
      out.append(buffer, 0, kPiece - stream_.avail_out);
      if (out.size() > most_bytes) {
        throw_bad_input("it is a gzip file of more than {} bytes", most_bytes);
      }
    }
    return out;
  }

 private:
  z_stream stream_{};
};

std::string base64(std::string_view bytes) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t k = 0; k < bytes.size(); k += 3) {
    const std::size_t count = std::min<std::size_t>(3, bytes.size() - k);
    unsigned group = 0;
    for (std::size_t j = 0; j < 3; ++j) {
      group = group << 8 | (j < count ? static_cast<unsigned char>(bytes[k + j]) : 0u);
    }
    for (std::size_t j = 0; j < 4; ++j) {
      out += j <= count ? kDigits[group >> (18 - 6 * j) & 63] : '=';
    }
  }
  return out;
}

}  // namespace

std::string gzip(std::string_view text) {
  return Deflater()(text);
}

std::string gzip_base64(std::string_view text) {
  return base64(gzip(text));
}

bool is_gzip(std::string_view bytes) {
  return bytes.starts_with("\x1f\x8b");
}

std::string gunzip(std::string_view bytes, std::size_t most_bytes) {
  return Inflater()(bytes, most_bytes);
}

}  // namespace lossgrid
