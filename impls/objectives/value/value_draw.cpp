// SPDX-License-Identifier: Apache-2.0
#include "impls/objectives/value/value_draw.h"

#include <algorithm>
#include <cmath>

#include "harness/problem/batch/draw.h"

namespace lossgrid {
namespace {

struct DrawnValues {
  double returns = 0;
  double old_value = 0;
};

/// Returns value - old value for a range of `clip` to both sides.
double drawn_distance(const Draw& draw, double clip) {
  const double kind = draw.uniform(0);
  if (kind < 0.3) return 0.4 * clip * draw.normal();
  if (kind < 0.7) return with_sign(kind < 0.5, clip * draw.between(1.2, 3, 1));
  if (kind < 0.9) return with_sign(kind < 0.8, clip);
  return kind < 0.95 ? 0.0 : draw.normal();
}

/// Draws a return for a value and the clipped value.
double drawn_return(const Draw& draw, double value, double clipped) {
  const double kind = draw.uniform(0);
  const double apart = value - clipped;
  if (kind < 0.3) return value + draw.normal();
  if (kind < 0.45) return clipped + apart * draw.between(0.05, 0.95, 1);
  if (kind < 0.6) return clipped + apart / 2;
  if (kind < 0.75) return clipped - apart * draw.between(0.1, 2, 1);
  if (kind < 0.95) return value + apart * draw.between(0.1, 2, 1);
  return value;
}

/// Returns the number as a float32, one of its neighbours, or a number 2^-10 away, with equal
/// probabilities.
double at_or_beside(const Draw& draw, double number) {
  const auto nearest = static_cast<float>(number);
  switch (static_cast<int>(5 * draw.uniform(3))) {
    case 1:
      return std::nextafter(nearest, -HUGE_VALF);
    case 2:
      return std::nextafter(nearest, HUGE_VALF);
    case 3:
      return nearest - 0x1p-10;
    case 4:
      return nearest + 0x1p-10;
    default:
      return nearest;
  }
}

double clamped(double value, double old_value, double clip) {
  return std::clamp(value, old_value - clip, old_value + clip);
}

DrawnValues values_at_edges(const Draw& of_return, const Draw& of_old, double clip, double bend,
                            double value) {
  DrawnValues drawn;
  const double from = of_old.uniform(0);
  const double distance = from < 0.6 ? clip : 2 * clip;
  drawn.old_value = value + with_sign(of_old.uniform(1) < 0.5, distance);
  if (from < 0.6) drawn.old_value = at_or_beside(of_old, drawn.old_value);
  const double clipped = clamped(value, static_cast<float>(drawn.old_value), clip);
  const bool is_bent = std::isfinite(bend) && of_return.uniform(0) < 0.3;
  const double far = with_sign(of_return.uniform(1) < 0.5, is_bent ? bend : 1.0);
  const bool is_middle = !is_bent && value != clipped;
  drawn.returns = at_or_beside(of_return, is_middle ? (value + clipped) / 2 : value + far);
  return drawn;
}

DrawnValues drawn_values(const CaseSpec& spec, std::int64_t t, double value, double value_clip,
                         double bend) {
  if (spec.drift == Drift::equal) return {value, value};
  const Draw of_return(spec.seed, Stream::returns, t);
  const Draw of_old(spec.seed, Stream::old_values, t);
  const double clip = std::isfinite(value_clip) ? value_clip : 0.5;
  if (spec.drift == Drift::edge) return values_at_edges(of_return, of_old, clip, bend, value);
  DrawnValues drawn;
  drawn.old_value = value - drawn_distance(of_old, clip);
  const double clipped = clamped(value, static_cast<float>(drawn.old_value), clip);
  drawn.returns = drawn_return(of_return, value, clipped);
  if (spec.drift == Drift::far && of_return.uniform(2) < 1.0 / 3) {
    const double least = std::isfinite(bend) ? bend : 10.0;
    drawn.returns =
        value + with_sign(of_return.uniform(3) < 0.5, of_return.between(1.1 * least, 4 * least, 1));
  }
  return drawn;
}

}  // namespace

DrawnInputs ValueDraw::inputs(const TokenToDraw& token) const {
  const DrawnValues drawn = drawn_values(token.spec, token.token, token.number, clip_, bend_);
  DrawnInputs inputs;
  inputs[TokenInput::returns] = drawn.returns;
  inputs[TokenInput::old_values] = drawn.old_value;
  return inputs;
}

}  // namespace lossgrid
