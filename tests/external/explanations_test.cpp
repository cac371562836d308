// SPDX-License-Identifier: Apache-2.0
// Sentences about mistakes of a function: a gradient that went through bf16, and a NaN that leaves
// its row.
#include <gmock/gmock.h>

#include "python.h"

namespace lossgrid {
namespace {

using ::testing::ContainsRegex;

const std::string kMistakes = R"(
class Narrow(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        return gradient.bfloat16().to(gradient.dtype)


@lossgrid.implementation
def narrow_gradient(logits, batch):
    return right(Narrow.apply(logits), batch)


@lossgrid.implementation
def spreads_nan(logits, batch):
    return right(logits, batch) + (logits * 0).sum()  # 0 * -inf, in all rows
)";

class ExternalExplanations : public WithTorch {
 protected:
  /// Runs `name` on one case and grid; `keys` are keys of the case other than its lengths.
  std::string run_wrong(const std::string& name, const std::string& keys) const {
    const ProcessResult result =
        run_loaded("run", {write_python("mistakes.py", kMistakes)},
                   fmt::format("--impl {} --case 'lens=15+18 vocab=96 {}'", name, keys));
    EXPECT_EQ(result.exit_code, 10) << result.out << result.err;
    return result.out;
  }
};

TEST_F(ExternalExplanations, NameBfloat16InAFloat32Gradient) {
  EXPECT_THAT(run_wrong("narrow_gradient", ""),
              ContainsRegex("explanation: grad_logits holds numbers of bfloat16 in float32, in all "
                            "[0-9]+ wrong elements where it shows: rounded to bf16 on the way\\?"));
}

TEST_F(ExternalExplanations, NameNanBeyondTheRowsWithMinusInfinity) {
  EXPECT_THAT(run_wrong("spreads_nan", "values=impossible_target"),
              ContainsRegex("explanation: log-probabilities are NaN in [0-9]+ rows: [0-9]+ with "
                            "-inf logits and [0-9]+ without; the NaN of a row reaches others\\?"));
}

}  // namespace
}  // namespace lossgrid
