// SPDX-License-Identifier: Apache-2.0
// Tape: reverse-mode automatic differentiation over Enclosures. A tape records every operation with
// its partial derivatives, and one sweep back gives the derivative of a result by every input, with
// the interval that a right float32 computation may give (A. Griewank and A. Walther, "Evaluating
// Derivatives", 2nd ed., 2008, chapter 3). The truth of an objective is its forward formula written
// on a tape, so that no gradient of the truth is derived by hand.
//
// At switches the tape follows the automatic differentiation of frameworks: a clamp passes the
// gradient on its closed interval; max and min give half of the gradient to each of two equal
// arguments. If an interval straddles the switch, the derivative's interval holds both sides, or is
// the interval of one side (Side): a right derivative is that of one side, not a value between the
// sides.
//
// One thread; a Var is valid as long as its tape.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "harness/loss/enclosure.h"

namespace lossgrid {

class Tape;

/// Side to take if an interval straddles a switch. `first` is: inside of a clamp; the first
/// argument of max and min; a positive argument of abs. `tie` is: inside of a closed clamp; half of
/// each argument of max and min; 0 for abs.
enum class Side { either, first, second, tie };

/// Number on a tape, or a constant (without a tape).
class Var {
 public:
  Var() = default;
  Var(double constant) : enclosure_(constant) {}            // NOLINT: numbers convert
  Var(const Enclosure& constant) : enclosure_(constant) {}  // NOLINT: numbers convert

  const Enclosure& enclosure() const { return enclosure_; }
  double value() const { return enclosure_.value; }

 private:
  friend class Tape;
  Enclosure enclosure_;
  Tape* tape_ = nullptr;
  std::int64_t node_ = -1;
};

class Tape {
 public:
  Tape() = default;
  Tape(const Tape&) = delete;
  Tape& operator=(const Tape&) = delete;

  Var variable(const Enclosure& value);

  /// Makes later operations take this side if an interval straddles their switch.
  void take_side(Side side) { side_ = side; }
  /// True if an interval has straddled a switch.
  bool straddles() const { return straddles_; }

  /// True if both are the same node, or made by the same operation from the same nodes.
  static bool is_one_number(const Var& a, const Var& b);

  /// Returns the share of the first side, in [0, 1], at a switch that the intervals of its
  /// arguments straddle. `value` is the share for the numbers themselves, `tie` the share at a tie.
  static Enclosure straddled(const Var& a, const Var& b, double value, double tie);

  /// Returns d output / d input for each input; 0 for inputs that output does not depend on. A
  /// branch that is not taken (derivative or adjoint exactly 0) passes nothing on, not even 0 *
  /// infinity. A Var of another tape, here or as an argument of an operation, throws
  /// ErrorCode::internal.
  std::vector<Enclosure> gradient(const Var& output, std::span<const Var> inputs) const;

  std::int64_t nodes() const { return static_cast<std::int64_t>(nodes_.size()); }

  /// Adds a node with the value `result` and one or two arguments (constants take no part).
  static Var record(const Enclosure& result, const Var& a, const Enclosure& da);
  static Var record(const Enclosure& result, const Var& a, const Enclosure& da, const Var& b,
                    const Enclosure& db);

 private:
  friend Var sum(std::span<const Var> terms);
  struct Argument {
    std::int64_t node;
    Enclosure derivative;
  };
  struct Node {
    std::int64_t first_argument;  // index in arguments_; the arguments end at the next node's
  };
  /// Returns the tape of `a` or, if `a` is a constant, `tape`: the tape of earlier arguments, null
  /// for constants only. Throws internal for two tapes.
  static Tape* common_tape(Tape* tape, const Var& a);
  Var push_node(const Enclosure& result);
  /// Adds an argument of the last node, unless it is a constant or has derivative 0.
  void push_argument(const Var& a, const Enclosure& derivative);

  std::vector<Node> nodes_;
  std::vector<Argument> arguments_;
  Side side_ = Side::either;
  bool straddles_ = false;
};

Var operator-(const Var& a);
Var operator+(const Var& a, const Var& b);
Var operator-(const Var& a, const Var& b);
Var operator*(const Var& a, const Var& b);
Var operator/(const Var& a, const Var& b);
Var& operator+=(Var& a, const Var& b);
/// Same rule as sum of Enclosures; O(terms), each with derivative 1.
Var sum(std::span<const Var> terms);
Var exp(const Var& a);
Var log(const Var& a);
Var log_sigmoid(const Var& a);
Var max(const Var& a, const Var& b);
Var min(const Var& a, const Var& b);
/// Has the derivative 0 at 0, and 1 and -1 on its two sides.
Var abs(const Var& a);
Var clamp(const Var& a, double low, double high);

/// Returns the same number with no gradient.
Var detach(const Var& a);
/// Returns exp(a - detach(a)): exactly 1, with gradient 1 (the score function).
Var score(const Var& a);

}  // namespace lossgrid
