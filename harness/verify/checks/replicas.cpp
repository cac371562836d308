// SPDX-License-Identifier: Apache-2.0
#include "harness/verify/checks/replicas.h"

#include <bit>

#include <fmt/format.h>

namespace lossgrid {

ReplicaFindings::ReplicaFindings(int dp_size, int cp_size)
    : dp(dp_size), cp(cp_size), products((ranks() + 1) * (ranks() + 1), 0.0) {}

double ReplicaFindings::add(std::span<const double> got, std::span<const std::uint8_t> held,
                            double before, double want, const ElementPlace& place,
                            std::int64_t coordinate) {
  const std::size_t all = ranks() + 1;
  std::vector<double> vector(all, 0.0);
  std::size_t first = ranks();
  std::int64_t count = 0;
  double sum = 0;
  bool differs = false;
  for (std::size_t r = 0; r < ranks(); ++r) {
    if (held[r] == 0) continue;
    vector[r] = got[r] - before;
    sum += got[r];
    ++count;
    if (first == ranks()) first = r;
    if (std::bit_cast<std::uint64_t>(got[r]) == std::bit_cast<std::uint64_t>(got[first])) continue;
    if (different == 0 && !differs) {
      first_different =
          fmt::format("vocab id {} after id {}: {:.9g} on {}, {:.9g} on {}", place.vocab_id,
                      coordinate, got[r] - before, replica_name(dp, cp, r), got[first] - before,
                      replica_name(dp, cp, first));
    }
    differs = true;
  }
  if (differs) ++different;
  if (holders < 0) holders = count;
  if (count == 0 || count != holders) {
    if (without + uneven == 0) {
      first_misplaced = fmt::format("vocab id {} after id {} is held by {} of {} ranks",
                                    place.vocab_id, coordinate, count, ranks());
    }
    ++(count == 0 ? without : uneven);
  }
  vector[all - 1] = want;
  for (std::size_t a = 0; a < all; ++a) {
    for (std::size_t b = 0; b < all; ++b) products[a * all + b] += vector[a] * vector[b];
  }
  return count == 0 ? 0.0 : sum / static_cast<double>(count);
}

void ReplicaFindings::add(const ReplicaFindings& other) {
  for (std::size_t k = 0; k < products.size(); ++k) products[k] += other.products[k];
  if (different == 0) first_different = other.first_different;
  different += other.different;
  if (without + uneven == 0) first_misplaced = other.first_misplaced;
  without += other.without;
  uneven += other.uneven;
  if (holders < 0) holders = other.holders;
}

ReplicaProducts ReplicaProducts::of_numbers(int dp, int cp, std::span<const double> values,
                                            double want) {
  std::vector<double> all(values.begin(), values.end());
  all.push_back(want);
  ReplicaProducts out{dp, cp, {}};
  for (const double a : all) {
    for (const double b : all) out.of.push_back(a * b);
  }
  return out;
}

std::string replica_name(int dp, int cp, std::size_t rank) {
  const std::size_t of_dp = rank / static_cast<std::size_t>(cp);
  const std::size_t of_cp = rank % static_cast<std::size_t>(cp);
  if (cp == 1) return fmt::format("dp rank {}", of_dp);
  if (dp == 1) return fmt::format("cp rank {}", of_cp);
  return fmt::format("dp rank {}, cp rank {}", of_dp, of_cp);
}

}  // namespace lossgrid
