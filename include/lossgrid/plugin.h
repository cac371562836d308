// SPDX-License-Identifier: Apache-2.0
// C interface of lossgrid: losses in a shared library, in C, C++, CUDA or any language that exports
// C functions. `lossgrid run --load FILE.so --impl NAME` runs them. The library exports one symbol,
// lossgrid_plugin_entry, which returns a table of implementations. C11 and C++11 and later.
//
// Rules for all functions of a plugin:
// - They return LOSSGRID_OK or another code, with a text in `error`.
// - Ranks are threads of one process: functions for different plans run at the same time.
// - Structs of the host are valid during the call, structs of a context while its plan lives.
//   Structs of the plugin are valid until the process ends.
// - A struct that begins with `struct_size` may grow at its end within one version of the ABI: set
//   it to the sizeof of the compiled struct, and read no member beyond the size that the host has
//   set.
#ifndef LOSSGRID_PLUGIN_H_
#define LOSSGRID_PLUGIN_H_

#include <stddef.h>
#include <stdint.h>

/* Structs of DLPack that pass tensors, by its ABI (major version 1). A program that includes
 * dlpack/dlpack.h must do so before this header. */
#ifndef DLPACK_DLPACK_H_
#define DLPACK_DLPACK_H_
#define DLPACK_MAJOR_VERSION 1
#define DLPACK_MINOR_VERSION 0

#ifdef __cplusplus
typedef enum : int32_t {
#else
typedef enum {
#endif
  kDLCPU = 1,
  kDLCUDA = 2,
  kDLCUDAHost = 3
} DLDeviceType;

typedef struct {
  DLDeviceType device_type;
  int32_t device_id;
} DLDevice;

typedef enum { kDLInt = 0U, kDLUInt = 1U, kDLFloat = 2U, kDLBfloat = 4U } DLDataTypeCode;

typedef struct {
  uint8_t code; /* a DLDataTypeCode */
  uint8_t bits;
  uint16_t lanes;
} DLDataType;

typedef struct {
  void* data;
  DLDevice device;
  int32_t ndim;
  DLDataType dtype;
  int64_t* shape;
  int64_t* strides; /* in elements; lossgrid always sets them */
  uint64_t byte_offset;
} DLTensor;
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Version of everything below; every change gets a new version. A host loads plugins of its own
 * version only. */
#define LOSSGRID_PLUGIN_ABI_VERSION 1u

enum {
  LOSSGRID_OK = 0,
  LOSSGRID_ERROR = 1,         /* the trial is an error with the text */
  LOSSGRID_OUT_OF_MEMORY = 2, /* the trial is out_of_memory */
  LOSSGRID_COMMUNICATION = 3, /* a collective failed; the host knows why: pass it on */
  LOSSGRID_BAD_ARGUMENT = 4   /* a call of the host's functions breaks their rules */
};

/* Error: text of a code other than LOSSGRID_OK, set by the plugin. */
typedef struct lossgrid_error {
  size_t struct_size;
  char text[1024];
} lossgrid_error;

/* Element types of collectives. Reductions take F64, F32, I64 and I32. */
enum {
  LOSSGRID_F64 = 0,
  LOSSGRID_F32 = 1,
  LOSSGRID_BF16 = 2,
  LOSSGRID_I64 = 3,
  LOSSGRID_I32 = 4,
  LOSSGRID_U8 = 5
};

enum { LOSSGRID_SUM = 0, LOSSGRID_MAX = 1, LOSSGRID_MIN = 2 };

/* Communicator: a group of ranks. All ranks of a group make the same calls in the same order. Calls
 * block until the result exists, run after all work on the context's stream, and are counted.
 * Memory is the device's or the host's. After a failed call all later calls fail. */
typedef struct lossgrid_communicator {
  size_t struct_size;
  const char* name; /* "tp", "cp", "dp", "world" */
  int32_t rank;
  int32_t size;
  /* Transport: "threads", "mpi", "nccl"; "host" in a worker process. */
  const char* kind;
  /* "mpi": const MPI_Comm *; "nccl": ncclComm_t; else null. Calls through it are not counted. */
  const void* native;
  void* host; /* the host's own */

  /* data[i] := op over ranks of data[i], in rank order: the same bits on all ranks. */
  int (*all_reduce)(const struct lossgrid_communicator* self, void* data, size_t count, int dtype,
                    int op);
  /* receive[r * count ..] := send of rank r. */
  int (*all_gather)(const struct lossgrid_communicator* self, const void* send, void* receive,
                    size_t count, int dtype);
  /* receive[0 .. count) := op over ranks of send[rank * count ..]; send has size * count. */
  int (*reduce_scatter)(const struct lossgrid_communicator* self, const void* send, void* receive,
                        size_t count, int dtype, int op);
  int (*broadcast)(const struct lossgrid_communicator* self, void* data, size_t count, int dtype,
                   int root);
  int (*barrier)(const struct lossgrid_communicator* self);
  /* Returns the reason of the failure; "" without a failure. */
  const char* (*error_text)(const struct lossgrid_communicator* self);
} lossgrid_communicator;

/* Option: `--impl NAME:chunk=7`. */
typedef struct lossgrid_option {
  const char* name;
  const char* type;          /* "int", "float", "bool" or "str" */
  const char* default_value; /* as a user would write it */
  const char* offers;        /* "64,1,7": the only values, all verified; null: any value */
} lossgrid_option;

/* Value of an option, in the order of the description. The member of its type is set. */
typedef struct lossgrid_value {
  int64_t as_int; /* a bool is 0 or 1 */
  double as_float;
  const char* as_str;
} lossgrid_value;

/* Description of an implementation: every convention by name. Null means the first word. */
typedef struct lossgrid_description {
  size_t struct_size;
  const char* name; /* letters, digits and underscores */
  const char* summary;
  const char* inputs; /* "logits", "hidden" (hidden states and the weight of the lm_head) */
  /* "logprobs", "nll", "logprobs,entropy", "nll,entropy"; "loss": of the whole pack, the same on
   * all TP and CP ranks */
  const char* returns;
  const char* rows;       /* outputs of "shard": this rank's rows; "pack": the padded pack */
  const char* gradient;   /* "own_part", or "summed_over_cp" by its backward of a gather over CP */
  const char* scale;      /* factor of loss and gradient: "1", or a product of "dp", "cp", "n_mb" */
  const char* overwrites; /* "": nothing, "logits" */
  /* any of "loss", "logits", "grad_logits", "grad_weight", "log_sum_exp", separated by commas */
  const char* rounds;
  int64_t sequence_multiple; /* padding in addition to the grid's; 0 means 1 */
  int64_t pack_multiple;
  /* Longest chain of float32 additions over the vocabulary of one row, for which the bounds allow;
   * 0 means 32, as for a sum in lanes. */
  int32_t serial_adds;
  const lossgrid_option* options;
  size_t option_count;
  /* Features that it implements itself, separated by commas; it gets no cases that need others.
   * "transforms" of the logits, with these "sequence_temperatures", "sampling_mask", "bias" of the
   * LM head, and for a "loss" "teacher", "teacher_hidden": the inputs and facts of these names.
   * "layouts": any cp_layout, by `positions` of the context. */
  const char* takes;
} lossgrid_description;

/* Problem: facts about a trial that are known without its data. */
typedef struct lossgrid_problem {
  size_t struct_size;
  int32_t tp, cp, dp;
  int32_t tp_rank, cp_rank, dp_rank; /* 0 in `supports` */
  int64_t vocab;
  int64_t vocab_start, vocab_end; /* ids whose columns this rank has */
  int64_t hidden;                 /* 0: the problem starts from logits */
  DLDataType dtype;               /* of logits, or of hidden states and weight */
  double temperature;             /* logits = hidden weight^T / temperature */
  const char* weight_layout;      /* "vocab_hidden" or "hidden_vocab": the order in memory */
  int32_t sequence_parallel;      /* hidden states are split by rows over tp */
  DLDevice device;
  int64_t sequences, tokens, padded_tokens;
  int64_t own_rows; /* T_c = padded_tokens / cp */
  int64_t out_rows; /* own_rows or padded_tokens, by `rows` */
  int64_t valid_tokens;
  int64_t microbatch, microbatches;
  /* Counts over the global batch. */
  int64_t global_valid_tokens, global_valid_sequences, global_positive_tokens;
  const char* objective; /* JSON: {"kind": "nll", ...} with all options */
  const lossgrid_value* options;
  size_t option_count;
  /* z = c tanh(s x / c) / temperature of a logit x, without a soft-cap s x / temperature; with
   * `sequence_temperatures` rows are divided by "temperatures" (array) of their sequence, too. */
  double logit_scale;   /* s */
  double logit_softcap; /* c; 0: none */
  int32_t sequence_temperatures;
  int32_t lm_head_bias;
  /* "": no sampling mask. Targets outside of the mask: "zero": log-probability 0 without a
   * gradient; "drop": not trained on. */
  const char* filtered_targets;
  DLDataType teacher_dtype; /* bits = 0: no teacher */
  int32_t teacher_topk;     /* 1: its logits are -inf except for the ids that it sends */
  int64_t teacher_hidden;   /* size of its hidden states; 0: its logits are given */
  /* Name of the way in which rows go to CP ranks (docs/concepts.md), "zigzag" by default. */
  const char* cp_layout;
} lossgrid_problem;

/* Context: surroundings of a plan. */
typedef struct lossgrid_context {
  size_t struct_size;
  const lossgrid_problem* problem;
  const lossgrid_communicator* tp;
  const lossgrid_communicator* cp;
  const lossgrid_communicator* dp;
  const lossgrid_communicator* world; /* all ranks, by dp, cp and tp rank */
  void* stream;                       /* a cudaStream_t; null on a processor */
  /* Batch, contiguous, on the device. One element for each row of this rank: the id that it
   * predicts (0 without one), 1 if that token is trained on, the row of the padded pack. */
  const DLTensor* labels;    /* int64 [T_c] */
  const DLTensor* valid;     /* uint8 [T_c] */
  const DLTensor* positions; /* int64 [T_c] */
  void* host;                /* the host's own */
  /* Returns another array of the batch by its name in python/PROTOCOL.md ("cu_seqlens_padded",
   * "targets", "rows.advantages"); null for an unknown name. */
  const DLTensor* (*array)(const struct lossgrid_context* self, const char* name);
  /* Allocates memory of the device, aligned to 64 bytes, counted under `tag` (null: "plugin"), with
   * guard bands and poison in it. Returns null if memory runs out. By the
   * calling thread only. */
  void* (*allocate)(const struct lossgrid_context* self, size_t bytes, const char* tag);
  /* Releases memory of `allocate`. All memory must be released when `destroy` returns. */
  void (*release)(const struct lossgrid_context* self, void* memory);
} lossgrid_context;

/* Tensors of this rank; null if the problem lacks the tensor. */
typedef struct lossgrid_inputs {
  size_t struct_size;
  DLTensor* logits; /* [T_c, own ids] */
  DLTensor* hidden; /* [T_c, H], T_c / tp with sequence parallelism */
  DLTensor* weight; /* [own ids, H]; the layout is in its strides */
  DLTensor* bias;   /* [own ids], added to the product of hidden states and weight */
  /* uint8 [T_c, own ids], 1 for ids of the softmax: z of all other ids counts as -inf. A row
   * without a trained token may have no such id. */
  const DLTensor* sampling_mask;
  const DLTensor* teacher_logits; /* [T_c, own ids] */
  /* In place of teacher_logits, N = teacher_hidden: [T_c, N], T_c / tp with sequence parallelism,
   * 0 in rows that predict nothing; [own ids, N]. The product is the teacher's logits. */
  const DLTensor* teacher_hidden;
  const DLTensor* teacher_weight;
} lossgrid_inputs;

/* Outputs: float32 [out_rows]. Every element is written; elements of rows that predict nothing are
 * ignored. */
typedef struct lossgrid_outputs {
  size_t struct_size;
  DLTensor* logprobs; /* or their negative, by `returns`; null for "loss" */
  DLTensor* entropy;
  double loss; /* of "loss" */
} lossgrid_outputs;

/* d loss / d output. */
typedef struct lossgrid_upstream {
  size_t struct_size;
  const DLTensor* logprobs; /* or of their negative */
  const DLTensor* entropy;
  double loss;
} lossgrid_upstream;

/* d loss / d input of this rank, in the shapes of the inputs. Every element is written. */
typedef struct lossgrid_gradients {
  size_t struct_size;
  DLTensor* logits; /* in the dtype of the problem, as hidden */
  DLTensor* hidden;
  DLTensor* weight; /* float32, of this rank's rows alone */
  DLTensor* bias;   /* likewise */
} lossgrid_gradients;

/* Cost of one phase on a rank. The calls must be complete and exact. */
typedef struct lossgrid_cost_call {
  const char* group;     /* "tp", "cp", "dp", "world" */
  const char* operation; /* "all_reduce", ... */
  int64_t calls;
  int64_t bytes; /* of this rank, as counted */
} lossgrid_cost_call;

#define LOSSGRID_MOST_COST_CALLS 16

typedef struct lossgrid_phase_cost {
  int64_t peak_bytes; /* of `allocate`, held beyond what the plan held before; -1: not known */
  int32_t call_count; /* -1: not known */
  lossgrid_cost_call calls[LOSSGRID_MOST_COST_CALLS];
} lossgrid_phase_cost;

typedef struct lossgrid_cost {
  size_t struct_size;
  lossgrid_phase_cost forward;
  lossgrid_phase_cost backward;
} lossgrid_cost;

/* Implementation: its functions. `user` is passed to functions without a plan. */
typedef struct lossgrid_implementation {
  size_t struct_size;
  void* user;
  const lossgrid_description* (*describe)(void* user);
  /* Writes the reason why a problem is not supported to `reason`, at most `size` bytes including
   * the final 0; "" if it is supported. Optional. */
  int (*supports)(void* user, const lossgrid_problem* problem, char* reason, size_t size,
                  lossgrid_error* error);
  /* Predicts the cost on the rank of `problem`, to which its plans are compared. Optional. */
  int (*cost)(void* user, const lossgrid_problem* problem, lossgrid_cost* cost,
              lossgrid_error* error);
  /* Makes a plan: a pack on a rank, with its workspaces. */
  int (*plan)(void* user, const lossgrid_context* context, void** plan, lossgrid_error* error);
  /* Computes the outputs. `needs_gradient` is 0 in an evaluation, which has no backward. */
  int (*forward)(void* plan, const lossgrid_inputs* inputs, lossgrid_outputs* outputs,
                 int needs_gradient, lossgrid_error* error);
  /* Computes the gradients of the previous forward. */
  int (*backward)(void* plan, const lossgrid_inputs* inputs, const lossgrid_upstream* upstream,
                  const lossgrid_gradients* gradients, lossgrid_error* error);
  void (*destroy)(void* plan);
} lossgrid_implementation;

/* Table of a plugin. The version is first in every version of the ABI. */
typedef struct lossgrid_plugin {
  uint32_t abi_version; /* LOSSGRID_PLUGIN_ABI_VERSION */
  uint32_t struct_size;
  const lossgrid_implementation* const* implementations;
  size_t implementation_count;
} lossgrid_plugin;

#if defined(__GNUC__)
#define LOSSGRID_EXPORT __attribute__((visibility("default")))
#else
#define LOSSGRID_EXPORT
#endif

/* Only symbol of a plugin. */
LOSSGRID_EXPORT const lossgrid_plugin* lossgrid_plugin_entry(void);

typedef const lossgrid_plugin* (*lossgrid_plugin_entry_function)(void);

#ifdef __cplusplus
}
#endif

#endif
