// SPDX-License-Identifier: Apache-2.0
// Format: the README of the safetensors repository of Hugging Face.
#include "harness/problem/bundle/safetensors.h"

#include <algorithm>
#include <bit>
#include <tuple>

#include <unistd.h>

#include "harness/core/error.h"
#include "harness/core/file.h"
#include "harness/core/text.h"
#include "harness/problem/case/checked_json.h"

namespace lossgrid {
namespace {

static_assert(std::endian::native == std::endian::little, "data is copied as it stands");

using Json = nlohmann::ordered_json;

constexpr std::size_t kLengthBytes = 8;
constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;  // limit of the reference implementation
constexpr std::int64_t kMaxSize = std::int64_t{1} << 62;

/// Returns the bytes of an element, 0 for an unknown dtype.
std::int64_t element_bytes(std::string_view dtype) {
  for (const char* known : {"F64", "I64", "U64"}) {
    if (dtype == known) return 8;
  }
  for (const char* known : {"F32", "I32", "U32"}) {
    if (dtype == known) return 4;
  }
  for (const char* known : {"BF16", "F16", "I16", "U16"}) {
    if (dtype == known) return 2;
  }
  for (const char* known : {"I8", "U8", "BOOL", "F8_E4M3", "F8_E5M2"}) {
    if (dtype == known) return 1;
  }
  return 0;
}

/// Returns the memory of the machine, which limits the size of a file, because files are read
/// whole.
std::size_t memory_bytes() {
  return static_cast<std::size_t>(::sysconf(_SC_PHYS_PAGES)) *
         static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

std::int64_t count_elements(std::span<const std::int64_t> shape, const std::string& what) {
  std::int64_t elements = 1;
  for (const std::int64_t size : shape) elements = checked_product(elements, size, what);
  return elements;
}

/// Returns a value on one line, for messages.
std::string shown(const Json& value) {
  return value.is_string() ? printable(value.get_ref<const std::string&>())
                           : value.dump(-1, ' ', true, Json::error_handler_t::replace);
}

/// Reads an array of whole numbers in [0, 2^62].
std::vector<std::int64_t> sizes_from(const Json& entry, const char* key, const std::string& what) {
  const auto at = entry.find(key);
  if (at == entry.end()) throw_bad_input("{}: '{}' is missing in the header", what, key);
  if (!at->is_array()) throw_bad_input("{}: '{}' is not an array", what, key);
  std::vector<std::int64_t> sizes;
  for (const Json& value : *at) {
    if (!value.is_number_unsigned() ||
        value.get<std::uint64_t>() > static_cast<std::uint64_t>(kMaxSize)) {
      throw_bad_input("{}: '{}' holds {} at {}, must be a whole number in [0, 2^62]", what, key,
                      shown(value), sizes.size());
    }
    sizes.push_back(value.get<std::int64_t>());
  }
  return sizes;
}

struct Place {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::string name;
};

/// Fills the view except for its data, and returns the place of the data.
Place read_place(const Json& entry, const std::string& name, const std::string& what,
                 std::int64_t data_bytes, TensorView& view) {
  if (!entry.is_object()) throw_bad_input("{}: its entry in the header is not an object", what);
  const auto dtype = entry.find("dtype");
  if (dtype == entry.end() || !dtype->is_string()) {
    throw_bad_input("{}: 'dtype' is missing in the header or not a string", what);
  }
  view.dtype = dtype->get<std::string>();
  const std::int64_t size = element_bytes(view.dtype);
  if (size == 0) throw_bad_input("{}: dtype {} is unknown", what, printable(view.dtype));
  view.shape = sizes_from(entry, "shape", what);
  const std::vector<std::int64_t> offsets = sizes_from(entry, "data_offsets", what);
  if (offsets.size() != 2) {
    throw_bad_input("{}: 'data_offsets' holds {} numbers, must hold 2", what, offsets.size());
  }
  Place place{offsets[0], offsets[1], name};
  if (place.begin > place.end || place.end > data_bytes) {
    throw_bad_input("{}: data_offsets [{}, {}] do not lie in the {} bytes of data", what,
                    place.begin, place.end, data_bytes);
  }
  const std::int64_t bytes = checked_product(count_elements(view.shape, what), size, what);
  if (place.end - place.begin != bytes) {
    throw_bad_input("{}: data_offsets hold {} bytes, {} {} needs {}", what, place.end - place.begin,
                    view.dtype, format_shape(view.shape), bytes);
  }
  return place;
}

/// Throws unless every byte of the data belongs to exactly one tensor.
void check_side_by_side(std::vector<Place> places, std::int64_t data_bytes,
                        const std::string& path) {
  std::sort(places.begin(), places.end(), [](const Place& a, const Place& b) {
    return std::tie(a.begin, a.end) < std::tie(b.begin, b.end);
  });
  std::int64_t used = 0;
  for (const Place& place : places) {
    if (place.begin != used) {
      throw_bad_input("{}: tensor {}: data begin at {}, must begin at {}: tensors may not {}", path,
                      printable(place.name), place.begin, used,
                      place.begin < used ? "overlap" : "leave gaps");
    }
    used = place.end;
  }
  if (used != data_bytes) {
    throw_bad_input("{}: the tensors end at byte {} of {} bytes of data", path, used, data_bytes);
  }
}

std::map<std::string, std::string> metadata_from(const Json& entry, const std::string& path) {
  if (!entry.is_object()) throw_bad_input("{}: __metadata__ is not an object", path);
  std::map<std::string, std::string> metadata;
  for (const auto& [key, value] : entry.items()) {
    if (!value.is_string()) {
      throw_bad_input("{}: __metadata__.{} is not a string", path, printable(key));
    }
    metadata[key] = value.get<std::string>();
  }
  return metadata;
}

}  // namespace

std::string format_shape(std::span<const std::int64_t> shape) {
  std::vector<std::string> sizes;
  for (const std::int64_t size : shape) sizes.push_back(std::to_string(size));
  return fmt::format("[{}]", join(sizes, ", "));
}

std::int64_t TensorView::elements() const {
  return count_elements(shape, "elements");
}

SafetensorsFile SafetensorsFile::read(const std::string& path) {
  SafetensorsFile file;
  file.path_ = path;
  file.bytes_ = std::make_shared<const std::string>(read_text_file(path, memory_bytes()));
  const std::string& bytes = *file.bytes_;
  if (bytes.size() < kLengthBytes) {
    throw_bad_input("{}: {} bytes are too few for a safetensors file", path, bytes.size());
  }
  std::uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, bytes.data(), kLengthBytes);
  const std::uint64_t rest = bytes.size() - kLengthBytes;
  if (header_bytes > rest || header_bytes > kMaxHeaderBytes) {
    throw_bad_input("{}: header length {} exceeds {}", path, header_bytes,
                    header_bytes > rest ? fmt::format("the {} bytes that follow", rest)
                                        : fmt::format("{}", kMaxHeaderBytes));
  }
  const std::string_view text(bytes.data() + kLengthBytes, header_bytes);
  if (text.empty() || text[0] != '{') throw_bad_input("{}: the header is not a JSON object", path);
  const Json header = parse_json_object(text, path + ": header", 3);

  const auto data = std::as_bytes(std::span(bytes)).subspan(kLengthBytes + header_bytes);
  const auto data_bytes = static_cast<std::int64_t>(data.size());
  std::vector<Place> places;
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__") {
      file.metadata_ = metadata_from(entry, path);
      continue;
    }
    const std::string what = fmt::format("{}: tensor {}", path, printable(name));
    TensorView view;
    Place place = read_place(entry, name, what, data_bytes, view);
    view.data = data.subspan(static_cast<std::size_t>(place.begin),
                             static_cast<std::size_t>(place.end - place.begin));
    places.push_back(place);
    file.tensors_.emplace(name, std::move(view));
  }
  check_side_by_side(std::move(places), data_bytes, path);
  return file;
}

bool SafetensorsFile::has(std::string_view name) const {
  return tensors_.find(name) != tensors_.end();
}

const TensorView& SafetensorsFile::tensor(std::string_view name) const {
  const auto at = tensors_.find(name);
  if (at == tensors_.end()) throw_bad_input("{}: tensor {} is missing", path_, printable(name));
  return at->second;
}

std::vector<std::string> SafetensorsFile::names() const {
  std::vector<std::string> names;
  for (const auto& [name, view] : tensors_) names.push_back(name);
  return names;
}

void write_safetensors(const std::string& path, const std::map<std::string, std::string>& metadata,
                       const std::vector<TensorToWrite>& tensors) {
  std::vector<const TensorToWrite*> order;
  for (const TensorToWrite& tensor : tensors) order.push_back(&tensor);
  std::stable_sort(order.begin(), order.end(), [](const auto* a, const auto* b) {
    return element_bytes(a->dtype) > element_bytes(b->dtype);
  });
  Json header;
  if (!metadata.empty()) header["__metadata__"] = metadata;
  std::size_t data_bytes = 0;
  for (const TensorToWrite* tensor : order) {
    const std::int64_t expected =
        count_elements(tensor->shape, tensor->name) * element_bytes(tensor->dtype);
    if (header.contains(tensor->name) ||
        expected != static_cast<std::int64_t>(tensor->data.size())) {
      throw Error(
          ErrorCode::internal,
          fmt::format("tensor {}: {} bytes for {} {}, or its name stands twice", tensor->name,
                      tensor->data.size(), tensor->dtype, format_shape(tensor->shape)));
    }
    Json& entry = header[tensor->name];
    entry["dtype"] = tensor->dtype;
    entry["shape"] = tensor->shape;
    entry["data_offsets"] = {data_bytes, data_bytes + tensor->data.size()};
    data_bytes += tensor->data.size();
  }
  std::string text =
      header.is_null() ? "{}" : header.dump(-1, ' ', false, Json::error_handler_t::replace);
  text.resize((text.size() + kLengthBytes - 1) / kLengthBytes * kLengthBytes, ' ');

  const std::uint64_t header_bytes = text.size();
  std::vector<std::byte> bytes;
  bytes.reserve(kLengthBytes + text.size() + data_bytes);
  const auto append = [&](std::span<const std::byte> part) {
    bytes.insert(bytes.end(), part.begin(), part.end());
  };
  append(std::as_bytes(std::span(&header_bytes, 1)));
  append(std::as_bytes(std::span(text)));
  for (const TensorToWrite* tensor : order) append(tensor->data);
  write_file_atomically(path, bytes);
}

}  // namespace lossgrid
