// SPDX-License-Identifier: Apache-2.0
#include "harness/core/archive.h"

#include <cmath>

#include <gtest/gtest.h>

namespace lossgrid {
namespace {

enum class Colour { red, green };

struct Leaf {
  double value = 0;
  std::string text;
};

template <typename A>
void fields(A& archive, Leaf& leaf) {
  archive(leaf.value, leaf.text);
}

struct Tree {
  Colour colour = Colour::red;
  bool flag = false;
  std::array<Leaf, 2> pair;
  std::vector<Leaf> leaves;
  std::vector<std::int64_t> numbers;
  std::map<std::string, std::vector<double>> by_name;
  std::optional<Leaf> there;
  std::optional<Leaf> not_there = Leaf{1, "left over"};
};

template <typename A>
void fields(A& archive, Tree& tree) {
  archive(tree.colour, tree.flag, tree.pair, tree.leaves, tree.numbers, tree.by_name, tree.there,
          tree.not_there);
}

Tree sample() {
  Tree tree;
  tree.colour = Colour::green;
  tree.flag = true;
  tree.pair = {Leaf{1.5, "a"}, Leaf{-0.0, std::string("\0b", 2)}};
  tree.leaves = {{1e-310, ""}, {2, "two"}, {3, "three"}};
  tree.numbers = {-1, std::int64_t{1} << 62};
  tree.by_name = {{"x", {1, 2}}, {"y", {}}};
  tree.there = Leaf{7, "seven"};
  tree.not_there.reset();
  return tree;
}

TEST(Archive, GivesBackWhatItGot) {
  const std::string bytes = to_bytes(sample());
  const Tree back = from_bytes<Tree>(bytes);
  EXPECT_EQ(back.colour, Colour::green);
  EXPECT_TRUE(back.flag);
  EXPECT_EQ(back.pair[0].value, 1.5);
  EXPECT_TRUE(std::signbit(back.pair[1].value));
  EXPECT_EQ(back.pair[1].text, std::string("\0b", 2));
  ASSERT_EQ(back.leaves.size(), 3u);
  EXPECT_EQ(back.leaves[0].value, 1e-310);
  EXPECT_EQ(back.leaves[2].text, "three");
  EXPECT_EQ(back.numbers, sample().numbers);
  EXPECT_EQ(back.by_name, sample().by_name);
  ASSERT_TRUE(back.there.has_value());
  EXPECT_EQ(back.there->text, "seven");
  EXPECT_FALSE(back.not_there.has_value());
  EXPECT_EQ(to_bytes(back), bytes);
}

TEST(Archive, RefusesEveryCutAndWhatIsLeftOver) {
  const std::string bytes = to_bytes(sample());
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_THROW(from_bytes<Tree>(std::string_view(bytes).substr(0, size)), Error) << size;
  }
  EXPECT_THROW(from_bytes<Tree>(bytes + "x"), Error);
}

}  // namespace
}  // namespace lossgrid
