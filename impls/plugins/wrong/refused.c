/* SPDX-License-Identifier: Apache-2.0
 *
 * Wrong plugin that is refused when it is loaded, by the rule that REFUSED names; right without. */
#include <stddef.h>

#define ABI_VERSION 1
#define NO_SYMBOL 2
#define NO_FUNCTION 3
#define SMALL_STRUCT 4
#define NAME_CLASH 5
#define UNKNOWN_WORD 6
#define MISSING_DEPENDENCY 7
#define BAD_OPTION 8
#define RETURNS_NULL 9
#define SMALL_DESCRIPTION 10

#if REFUSED == NO_SYMBOL
#define lossgrid_plugin_entry another_entry
#endif
#include "lossgrid/plugin.h"

#if REFUSED == MISSING_DEPENDENCY
void function_of_no_library(void);
#endif

static const lossgrid_description* describe(void* user) {
  static const lossgrid_option option = {"chunk", "int", "many", NULL};
  static lossgrid_description description;
  (void)user;
  description.struct_size = sizeof(description) - (REFUSED == SMALL_DESCRIPTION ? 8 : 0);
  description.name = REFUSED == NAME_CLASH ? "fused" : "refused";
  description.rows = REFUSED == UNKNOWN_WORD ? "shards" : NULL;
  if (REFUSED == BAD_OPTION) {
    description.options = &option;
    description.option_count = 1;
  }
  return &description;
}

static int plan(void* user, const lossgrid_context* context, void** plan, lossgrid_error* error) {
  (void)user, (void)context, (void)plan, (void)error;
#if REFUSED == MISSING_DEPENDENCY
  function_of_no_library();
#endif
  return LOSSGRID_OK;
}

static int forward(void* plan, const lossgrid_inputs* inputs, lossgrid_outputs* outputs,
                   int needs_gradient, lossgrid_error* error) {
  (void)plan, (void)inputs, (void)outputs, (void)needs_gradient, (void)error;
  return LOSSGRID_OK;
}

static int backward(void* plan, const lossgrid_inputs* inputs, const lossgrid_upstream* upstream,
                    const lossgrid_gradients* gradients, lossgrid_error* error) {
  (void)plan, (void)inputs, (void)upstream, (void)gradients, (void)error;
  return LOSSGRID_OK;
}

static void destroy(void* plan) {
  (void)plan;
}

const lossgrid_plugin* lossgrid_plugin_entry(void) {
  static lossgrid_implementation implementation;
  static const lossgrid_implementation* const all[] = {&implementation};
  static lossgrid_plugin plugin;
  implementation.struct_size = sizeof(implementation) - (REFUSED == SMALL_STRUCT ? 8 : 0);
  implementation.describe = describe;
  implementation.plan = plan;
  implementation.forward = forward;
  implementation.backward = REFUSED == NO_FUNCTION ? NULL : backward;
  implementation.destroy = destroy;
  plugin.abi_version = LOSSGRID_PLUGIN_ABI_VERSION + (REFUSED == ABI_VERSION ? 1 : 0);
  plugin.struct_size = sizeof(plugin);
  plugin.implementations = all;
  plugin.implementation_count = 1;
  return REFUSED == RETURNS_NULL ? NULL : &plugin;
}
