// SPDX-License-Identifier: Apache-2.0
// Wrong plugin: C++ exceptions leave its functions.
#include <stdexcept>

#include "lossgrid/plugin.h"

namespace {

const lossgrid_description* describe(void*) {
  static const lossgrid_description description = [] {
    lossgrid_description all{};
    all.struct_size = sizeof(all);
    all.name = "twin_throws";
    return all;
  }();
  return &description;
}

int plan(void*, const lossgrid_context*, void**, lossgrid_error*) {
  return LOSSGRID_OK;
}

int forward(void*, const lossgrid_inputs*, lossgrid_outputs*, int, lossgrid_error*) {
  throw std::runtime_error("out of ideas");
}

int backward(void*, const lossgrid_inputs*, const lossgrid_upstream*, const lossgrid_gradients*,
             lossgrid_error*) {
  return LOSSGRID_OK;
}

void destroy(void*) {
  throw 1;  // NOLINT: behind the first exception; nobody may end by it
}

}  // namespace

extern "C" const lossgrid_plugin* lossgrid_plugin_entry(void) {
  static const lossgrid_implementation implementation = [] {
    lossgrid_implementation all{};
    all.struct_size = sizeof(all);
    all.describe = describe;
    all.plan = plan;
    all.forward = forward;
    all.backward = backward;
    all.destroy = destroy;
    return all;
  }();
  static const lossgrid_implementation* const table[] = {&implementation};
  static const lossgrid_plugin plugin{LOSSGRID_PLUGIN_ABI_VERSION, sizeof(lossgrid_plugin), table,
                                      1};
  return &plugin;
}
