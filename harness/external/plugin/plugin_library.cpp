// SPDX-License-Identifier: Apache-2.0
#include "harness/external/plugin/plugin_library.h"

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <filesystem>
#include <set>

#include <dlfcn.h>

#include "harness/core/error.h"
#include "harness/core/text.h"
#include "harness/external/conventions.h"
#include "harness/external/option_values.h"
#include "harness/external/plugin/plugin_call.h"

namespace lossgrid {
namespace {

constexpr const char* kEntry = "lossgrid_plugin_entry";

std::string last_dl_error() {
  const char* text = dlerror();
  return text != nullptr ? text : "it cannot be opened";
}

const lossgrid_plugin& open_plugin(const std::string& file) {
  // A name without a slash would be looked up in the folders of libraries.
  void* handle = dlopen(std::filesystem::absolute(file).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) throw_bad_input("--load {}: {}", file, last_dl_error());
  void* symbol = dlsym(handle, kEntry);
  if (symbol == nullptr) {
    throw_bad_input("--load {}: no plugin of lossgrid, it has no symbol {}", file, kEntry);
  }
  const auto entry = reinterpret_cast<lossgrid_plugin_entry_function>(symbol);
  const lossgrid_plugin* plugin = nullptr;
  try {
    plugin = call_plainly(entry);
  } catch (const Error& error) {
    throw_bad_input("--load {}: {}: {}", file, kEntry, error.what());
  }
  if (plugin == nullptr) throw_bad_input("--load {}: {} returns null", file, kEntry);
  if (plugin->abi_version != LOSSGRID_PLUGIN_ABI_VERSION) {
    throw_bad_input("--load {}: it has version {} of the plugin ABI, this program has {}", file,
                    plugin->abi_version, LOSSGRID_PLUGIN_ABI_VERSION);
  }
  return *plugin;
}

void require_size(std::size_t size, std::size_t least, const char* type) {
  if (size >= least) return;
  throw_bad_input("struct_size of {} is {}, version {} of the ABI has {}", type, size,
                  LOSSGRID_PLUGIN_ABI_VERSION, least);
}

void require_functions(const lossgrid_implementation& table) {
  const auto require = [](bool is_there, const char* function) {
    if (!is_there) throw_bad_input("an implementation has no function '{}'", function);
  };
  require(table.describe != nullptr, "describe");
  require(table.plan != nullptr, "plan");
  require(table.forward != nullptr, "forward");
  require(table.backward != nullptr, "backward");
  require(table.destroy != nullptr, "destroy");
}

std::string text_or(const char* text, const char* otherwise) {
  return text != nullptr && *text != 0 ? text : otherwise;
}

nlohmann::json split_words(const char* text, const char* otherwise = "") {
  const std::string joined = text_or(text, otherwise);
  nlohmann::json words = nlohmann::json::array();
  if (joined.empty()) return words;
  for (const std::string& word : split(joined, ',')) words.push_back(word);
  return words;
}

void require_words(const nlohmann::json& given, const char* key,
                   const std::vector<std::string>& known) {
  for (const nlohmann::json& entry : given) {
    const std::string word = entry;
    if (std::find(known.begin(), known.end(), word) != known.end()) continue;
    throw Error(ErrorCode::bad_input, unknown_name_message(key, word, known));
  }
}

bool lists(const nlohmann::json& list, const char* word) {
  return std::find(list.begin(), list.end(), word) != list.end();
}

PluginOption read_option(const lossgrid_option& from, nlohmann::json& declaration) {
  PluginOption option{text_or(from.name, ""), text_or(from.type, ""), {}};
  if (option.name.empty()) throw_bad_input("an option has no name");
  const std::vector<std::string> types{"int", "float", "bool", "str"};
  require_words(nlohmann::json::array({option.type}), "type", types);
  if (from.default_value == nullptr) throw_bad_input("option {} has no default", option.name);
  option.default_value = typed_value(option.name, from.default_value, option.type);
  if (declaration["options"].contains(option.name)) {
    throw_bad_input("option {} is there twice", option.name);
  }
  declaration["options"][option.name] = option.type;
  if (from.offers == nullptr) return option;
  nlohmann::json& offers = declaration["offers"][option.name];
  for (const std::string& value : split(from.offers, ',')) {
    offers.push_back(typed_value(option.name, value, option.type));
  }
  if (offers.front() != option.default_value) {
    throw_bad_input("option {}: the first value that it offers is not its default", option.name);
  }
  return option;
}

PluginImplementation read_implementation(const lossgrid_implementation& table,
                                         const std::string& file) {
  require_size(table.struct_size, sizeof(lossgrid_implementation), "lossgrid_implementation");
  require_functions(table);
  const lossgrid_description* from = call_plainly([&] { return table.describe(table.user); });
  if (from == nullptr) throw_bad_input("describe returns null");
  require_size(from->struct_size, sizeof(lossgrid_description), "lossgrid_description");
  const std::string name = text_or(from->name, "");
  const bool is_word = !name.empty() && std::all_of(name.begin(), name.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '_';
  });
  if (!is_word) throw_bad_input("name '{}' is not of letters, digits and underscores", name);
  PluginImplementation out{&table, {}, {}};
  try {
    out.declaration = {
        {"name", name},
        {"kind", "implementation"},
        {"summary", text_or(from->summary, "")},
        {"file", file},
        {"inputs", text_or(from->inputs, "logits")},
        {"returns", split_words(from->returns, "logprobs")},
        {"rows", text_or(from->rows, "shard")},
        {"gradient", text_or(from->gradient, "own_part")},
        {"scale", text_or(from->scale, "1")},
        {"overwrites", split_words(from->overwrites)},
        {"rounds", split_words(from->rounds)},
        {"takes", split_words(from->takes)},
        {"sequence_multiple", from->sequence_multiple == 0 ? 1 : from->sequence_multiple},
        {"pack_multiple", from->pack_multiple == 0 ? 1 : from->pack_multiple},
        {"has_supports", table.supports != nullptr},
        {"has_cost", table.cost != nullptr},
        {"options", nlohmann::json::object()},
        {"offers", nlohmann::json::object()}};
    if (from->serial_adds != 0) out.declaration["serial_adds"] = from->serial_adds;
    require_words(out.declaration["returns"], "returns", {"logprobs", "nll", "entropy", "loss"});
    require_plugin_words(out.declaration);
    const auto returns = [&](const char* word) { return lists(out.declaration["returns"], word); };
    if (returns("logprobs") + returns("nll") + returns("loss") != 1 ||
        (returns("loss") && returns("entropy"))) {
      throw_bad_input(
          "returns '{}' is not one of logprobs, nll and loss, with entropy beside the "
          "first two alone",
          from->returns != nullptr ? from->returns : "");
    }
    for (std::size_t k = 0; k < from->option_count; ++k) {
      out.options.push_back(read_option(from->options[k], out.declaration));
    }
  } catch (const Error& error) {
    throw_bad_input("'{}': {}", name, error.what());
  }
  return out;
}

}  // namespace

bool PluginImplementation::returns_nll() const {
  return lists(declaration.at("returns"), "nll");
}

PluginLibrary::PluginLibrary(const std::string& file) {
  const lossgrid_plugin& plugin = open_plugin(file);
  try {
    require_size(plugin.struct_size, sizeof(lossgrid_plugin), "lossgrid_plugin");
    if (plugin.implementation_count == 0 || plugin.implementations == nullptr) {
      throw_bad_input("it has no implementations");
    }
    std::set<std::string> names;
    for (std::size_t k = 0; k < plugin.implementation_count; ++k) {
      if (plugin.implementations[k] == nullptr) throw_bad_input("an implementation is null");
      implementations_.push_back(read_implementation(*plugin.implementations[k], file));
      const std::string name = implementations_.back().declaration.at("name");
      if (!names.insert(name).second) throw_bad_input("it has two implementations '{}'", name);
    }
  } catch (const Error& error) {
    throw_bad_input("--load {}: {}", file, error.what());
  }
}

const PluginImplementation& PluginLibrary::find(const std::string& name) const {
  const auto found = std::find_if(
      implementations_.begin(), implementations_.end(),
      [&](const PluginImplementation& one) { return one.declaration.at("name") == name; });
  if (found == implementations_.end()) {
    throw Error(ErrorCode::internal, fmt::format("the plugin has no '{}'", name));
  }
  return *found;
}

}  // namespace lossgrid
