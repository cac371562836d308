// SPDX-License-Identifier: Apache-2.0
// Tests that every rule between keys refuses a case, and that a case without the offending key
// passes: the same list decides on refusals and on draws.
#include "harness/problem/batch/case_rules.h"

#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "expect_error.h"
#include "harness/problem/batch/problem.h"

namespace lossgrid {
namespace {

using ::testing::HasSubstr;

struct BrokenRule {
  const char* text;     // of a case
  const char* refusal;  // a part of it
};

constexpr BrokenRule kBroken[] = {
    {"lens=3 lm_head_bias=true", "lm_head_bias = true belongs to the LM head"},
    {"lens=3 vocab=8 teacher_topk=9", "teacher_topk = 9, must lie in [0, vocab = 8]"},
    {"lens=3 vocab=8 teacher_topk=2 teacher_hidden=4", "hidden states make logits of all ids"},
    {"lens=3 vocab=8 top_k=9", "top_k = 9, must lie in [0, vocab = 8]"},
    {"lens=3 vocab=8 filtered_targets=zero", "belongs to a case with top_k or top_p"},
    {"lens=3 head=value vocab=8", "head = value has no vocabulary"},
    {"lens=3 head=score top_k=1", "top_k = 1 belongs to a vocabulary"},
    {"lens=3 seqs=2", "seqs and seq_len belong to a distribution"},
    {"lens=3 vocab=8 values=denormal dtype=f64", "values = denormal needs dtype = f32 or bf16"},
    {"lens=3 vocab=8 hidden=4 dtype=f64", "dtype = f64 needs logits"},
    {"lens=3 vocab=8 hidden=4 values=masked_vocab", "hidden x weight is never -inf"},
    {"lens=3 vocab=8 hidden=4 hidden_values=one_hot", "needs hidden = vocab"},
    {"lens=3 vocab=8 hidden=8 hidden_values=one_hot values=ties", "values = normal alone"},
    {"lens=3 vocab=8 hidden=1 values=offset", "leaves no place for the shift"},
    {"lens=3 vocab=8 teacher_hidden=1 values=offset", "leaves no place for the shift"},
};

TEST(CaseRules, EachRefusesACase) {
  std::set<std::string> broken;
  for (const BrokenRule& one : kBroken) {
    const CaseSpec spec = parse_case(one.text);
    ASSERT_TRUE(first_refusal(spec)) << one.text;
    EXPECT_THAT(*first_refusal(spec), HasSubstr(one.refusal)) << one.text;
    expect_bad_input([&] { make_problem(spec); }, {one.refusal});
    for (const CaseRule& rule : case_rules()) {
      if (rule.refusal(spec)) broken.insert(rule.name);
    }
  }
  for (const CaseRule& rule : case_rules()) EXPECT_TRUE(broken.contains(rule.name)) << rule.name;
}

TEST(CaseRules, RefuseNoOtherCase) {
  for (const char* text :
       {"lens=3 hidden=4 lm_head_bias=true", "lens=3 vocab=8 teacher_topk=8", "head=value lens=3",
        "lens=3 vocab=8 top_k=8 filtered_targets=zero", "lens=uniform seqs=2 seq_len=5",
        "lens=3 vocab=8 hidden=1 values=offset lm_head_bias=true", "values=denormal dtype=bf16",
        "lens=3 vocab=8 hidden=8 hidden_values=one_hot", "teacher_hidden=4 dtype=f64 lens=3"}) {
    EXPECT_FALSE(first_refusal(parse_case(text)))
        << text << ": " << *first_refusal(parse_case(text));
  }
}

}  // namespace
}  // namespace lossgrid
