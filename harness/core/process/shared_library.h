// SPDX-License-Identifier: Apache-2.0
// SharedLibrary: a library that is loaded at run time and stays loaded, so that one executable
// starts on machines with and without it.
#pragma once

#include <string>

namespace lossgrid {

class SharedLibrary {
 public:
  /// Loads the library at a path, or of that name. Throws unsupported with the loader's text.
  explicit SharedLibrary(std::string path);

  bool has(const char* name) const { return address_of(name) != nullptr; }
  /// Sets `function` to the one of that name. Throws unsupported if there is none.
  template <typename Function>
  void find(const char* name, Function& function) const {
    function = reinterpret_cast<Function>(address_of(name));
    if (function == nullptr) throw_missing(name);
  }

 private:
  void* address_of(const char* name) const;
  [[noreturn]] void throw_missing(const char* name) const;

  std::string path_;
  void* library_;
};

}  // namespace lossgrid
