// SPDX-License-Identifier: Apache-2.0
#include "harness/loss/tape.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "harness/core/error.h"

namespace lossgrid {
namespace {

bool is_same(const Enclosure& a, const Enclosure& b) {
  return a.value == b.value && a.low == b.low && a.high == b.high;
}

// Returns the derivatives of max(x, y) by x and y, or with sign -1 those of min(x, y).
std::pair<Enclosure, Enclosure> choose_larger(const Var& x, const Var& y, double sign) {
  const Enclosure a = sign * x.enclosure();
  const Enclosure b = sign * y.enclosure();
  if (a.low > b.high) return {1.0, 0.0};
  if (b.low > a.high) return {0.0, 1.0};
  // Both arguments are the same number, as in a clipped objective inside its clip range: they are
  // also equal in float32. Two numbers with the same interval may still differ.
  const bool are_known = a.is_exact() && b.is_exact() && a.value == b.value;
  if (are_known || Tape::is_one_number(x, y)) return {0.5, 0.5};
  const double to_a = a.value > b.value ? 1 : a.value < b.value ? 0 : 0.5;
  const Enclosure share = Tape::straddled(x, y, to_a, 0.5);
  Enclosure rest(1 - share.value);
  rest.low = 1 - share.high;
  rest.high = 1 - share.low;
  return {share, rest};
}

// Returns sigmoid(-a), the derivative of log_sigmoid, decreasing in a. Four roundoffs: an
// exponential, a sum and a quotient.
Enclosure falling_sigmoid(const Enclosure& a) {
  const auto f = [](double x) { return 1 / (1 + std::exp(x)); };
  Enclosure ends(f(a.value));
  ends.low = f(a.high);
  ends.high = f(a.low);
  return clamp(rounded(ends, 4), 0, 1);
}

}  // namespace

Tape* Tape::common_tape(Tape* tape, const Var& a) {
  if (a.tape_ == nullptr) return tape;
  if (tape != nullptr && tape != a.tape_) {
    throw Error(ErrorCode::internal, "an operation mixes variables of two tapes");
  }
  return a.tape_;
}

Var Tape::push_node(const Enclosure& result) {
  Var var(result);
  var.tape_ = this;
  var.node_ = nodes();
  nodes_.push_back({static_cast<std::int64_t>(arguments_.size())});
  return var;
}

void Tape::push_argument(const Var& a, const Enclosure& derivative) {
  const bool is_zero = derivative.low == 0 && derivative.high == 0;
  if (a.tape_ != nullptr && !is_zero) arguments_.push_back({a.node_, derivative});
}

bool Tape::is_one_number(const Var& a, const Var& b) {
  const Tape* tape = a.tape_;
  if (tape == nullptr || tape != b.tape_) return false;
  if (a.node_ == b.node_) return true;
  const auto arguments = [&](std::int64_t node) {
    const std::int64_t end = node + 1 < tape->nodes()
                                 ? tape->nodes_[node + 1].first_argument
                                 : static_cast<std::int64_t>(tape->arguments_.size());
    return std::span(tape->arguments_).first(end).subspan(tape->nodes_[node].first_argument);
  };
  const std::span<const Argument> of_a = arguments(a.node_);
  const std::span<const Argument> of_b = arguments(b.node_);
  return is_same(a.enclosure_, b.enclosure_) && !of_a.empty() &&
         std::ranges::equal(of_a, of_b, [](const Argument& x, const Argument& y) {
           return x.node == y.node && is_same(x.derivative, y.derivative);
         });
}

Enclosure Tape::straddled(const Var& a, const Var& b, double value, double tie) {
  Enclosure both_sides = Enclosure::around(0.5, 0.5);
  both_sides.value = value;
  Tape* tape = common_tape(common_tape(nullptr, a), b);
  if (tape == nullptr) return both_sides;
  tape->straddles_ = true;
  switch (tape->side_) {
    case Side::first:
      return 1.0;
    case Side::second:
      return 0.0;
    case Side::tie:
      return tie;
    default:
      return both_sides;
  }
}

Var Tape::variable(const Enclosure& value) {
  return push_node(value);
}

Var Tape::record(const Enclosure& result, const Var& a, const Enclosure& da) {
  return record(result, a, da, Var(), 0.0);
}

Var Tape::record(const Enclosure& result, const Var& a, const Enclosure& da, const Var& b,
                 const Enclosure& db) {
  Tape* tape = common_tape(common_tape(nullptr, a), b);
  if (tape == nullptr) return result;
  const Var var = tape->push_node(result);
  tape->push_argument(a, da);
  tape->push_argument(b, db);
  return var;
}

std::vector<Enclosure> Tape::gradient(const Var& output, std::span<const Var> inputs) const {
  const auto check_tape = [&](const Var& var) {
    if (var.tape_ != nullptr && var.tape_ != this) {
      throw Error(ErrorCode::internal, "a gradient is asked for on a tape that lacks the variable");
    }
  };
  check_tape(output);
  for (const Var& input : inputs) check_tape(input);

  // Arguments come before their node on the tape, so an adjoint is complete when it is reached.
  std::vector<EnclosureSum> adjoints(output.node_ + 1);
  if (output.node_ >= 0) adjoints[output.node_].add(1.0);
  for (std::int64_t node = output.node_; node >= 0; --node) {
    if (adjoints[node].is_zero()) continue;
    const std::int64_t end = node + 1 < nodes() ? nodes_[node + 1].first_argument
                                                : static_cast<std::int64_t>(arguments_.size());
    const Enclosure adjoint = adjoints[node].result();
    for (std::int64_t i = nodes_[node].first_argument; i < end; ++i) {
      adjoints[arguments_[i].node].add(adjoint * arguments_[i].derivative);
    }
  }

  std::vector<Enclosure> result;
  result.reserve(inputs.size());
  for (const Var& input : inputs) {
    const bool reached = input.node_ >= 0 && input.node_ <= output.node_;
    result.push_back(reached ? adjoints[input.node_].result() : 0.0);
  }
  return result;
}

Var operator-(const Var& a) {
  return Tape::record(-a.enclosure(), a, -1.0);
}

Var operator+(const Var& a, const Var& b) {
  return Tape::record(a.enclosure() + b.enclosure(), a, 1.0, b, 1.0);
}

Var operator-(const Var& a, const Var& b) {
  return Tape::record(a.enclosure() - b.enclosure(), a, 1.0, b, -1.0);
}

Var operator*(const Var& a, const Var& b) {
  return Tape::record(a.enclosure() * b.enclosure(), a, b.enclosure(), b, a.enclosure());
}

Var operator/(const Var& a, const Var& b) {
  const Enclosure quotient = a.enclosure() / b.enclosure();
  return Tape::record(quotient, a, 1.0 / b.enclosure(), b, -(quotient / b.enclosure()));
}

Var& operator+=(Var& a, const Var& b) {
  return a = a + b;
}

Var sum(std::span<const Var> terms) {
  Tape* tape = nullptr;
  EnclosureSum total;
  for (const Var& term : terms) {
    tape = Tape::common_tape(tape, term);
    total.add(term.enclosure());
  }
  if (tape == nullptr) return total.result();
  const Var var = tape->push_node(total.result());
  for (const Var& term : terms) tape->push_argument(term, 1.0);
  return var;
}

Var exp(const Var& a) {
  const Enclosure result = exp(a.enclosure());
  return Tape::record(result, a, result);
}

Var log(const Var& a) {
  return Tape::record(log(a.enclosure()), a, 1.0 / a.enclosure());
}

Var log_sigmoid(const Var& a) {
  return Tape::record(log_sigmoid(a.enclosure()), a, falling_sigmoid(a.enclosure()));
}

Var max(const Var& a, const Var& b) {
  const auto [da, db] = choose_larger(a, b, 1);
  return Tape::record(max(a.enclosure(), b.enclosure()), a, da, b, db);
}

Var min(const Var& a, const Var& b) {
  const auto [da, db] = choose_larger(a, b, -1);
  return Tape::record(min(a.enclosure(), b.enclosure()), a, da, b, db);
}

Var abs(const Var& a) {
  const Enclosure& x = a.enclosure();
  if (x.low > 0) return a;
  if (x.high < 0) return -a;
  if (x.is_exact()) return Tape::record(abs(x), a, 0.0);
  const double positive = x.value > 0 ? 1 : x.value < 0 ? 0 : 0.5;
  const Enclosure share = Tape::straddled(a, a, positive, 0.5);
  Enclosure sign(2 * share.value - 1);
  sign.low = 2 * share.low - 1;
  sign.high = 2 * share.high - 1;
  return Tape::record(abs(x), a, sign);
}

Var clamp(const Var& a, double low, double high) {
  const Enclosure& x = a.enclosure();
  if (low <= x.low && x.high <= high) return a;
  if (x.high < low || x.low > high) return Var(clamp(x, low, high));
  const double inside = low <= x.value && x.value <= high ? 1 : 0;
  return Tape::record(clamp(x, low, high), a, Tape::straddled(a, a, inside, 1));
}

Var detach(const Var& a) {
  return Var(a.enclosure());
}

Var score(const Var& a) {
  return Tape::record(1.0, a, 1.0);
}

}  // namespace lossgrid
