#include <gtest/gtest.h>

#include "data/sources.hpp"
#include "data/text_source.hpp"
#include "data/vocabulary.hpp"

namespace hanse {
namespace {

using Tokens = std::vector<int32_t>;

Tokens encoded(const Vocabulary& vocabulary, const std::string& text) {
  Tokens tokens;
  vocabulary.encode(text, "text", tokens);
  return tokens;
}

TEST(Vocabulary, AsciiIsAFixedList) {
  const auto vocabulary = make_character_vocabulary(Characters::kAscii);
  EXPECT_EQ(vocabulary->size(), 97);
  EXPECT_EQ(encoded(*vocabulary, "\n ~A\t\xC3\xA9"), (Tokens{1, 2, 96, 35, 0, 0}));
  EXPECT_EQ(vocabulary->count("a\xE2\x82\xAC\xF0\x9F\x98\x80", "text"), 3);
}

TEST(Vocabulary, OfTheDataIsInCodePointOrder) {
  const auto vocabulary = make_character_vocabulary(Characters::kData);
  vocabulary->count("b\xC3\xA9", "text");
  vocabulary->count("a b", "text");
  vocabulary->freeze();  // \n, ' ', a, b, e-acute
  EXPECT_EQ(vocabulary->size(), 6);
  EXPECT_EQ(vocabulary->separator(), 1);
  EXPECT_EQ(encoded(*vocabulary, "\xC3\xA9 ba"), (Tokens{5, 2, 4, 3}));
}

TEST(Vocabulary, WordsByFrequencyThenBytes) {
  const auto vocabulary = make_word_vocabulary(3);
  EXPECT_EQ(vocabulary->count("  to be or\tnot to be ", "text"), 6);
  vocabulary->count("to or", "text");
  vocabulary->freeze();  // to 3, be 2, or 2, not 1
  EXPECT_EQ(vocabulary->size(), 6);
  EXPECT_EQ(encoded(*vocabulary, "not to be or else"), (Tokens{1, 3, 4, 5, 1}));
}

// What one has learnt makes another one with the same tokens, whatever texts it counts.
TEST(Vocabulary, IsMadeAgainOfWhatItHasLearnt) {
  const auto characters = make_character_vocabulary(Characters::kData);
  characters->count("b\xC3\xA9 a", "text");
  characters->freeze();
  const auto words = make_word_vocabulary(2);
  words->count("to be or not to be", "text");
  words->freeze();
  EXPECT_EQ(characters->learnt(),
            (std::vector<std::string>{"U+000A", "U+0020", "U+0061", "U+0062", "U+00E9"}));
  const auto again = make_character_vocabulary(Characters::kData, characters->learnt());
  const auto words_again = make_word_vocabulary(2, words->learnt());
  again->count("zzz", "text");
  words_again->count("or or or", "text");
  again->freeze();
  words_again->freeze();
  EXPECT_EQ(encoded(*again, "\xC3\xA9z\nb"), (Tokens{5, 0, 1, 4}));
  EXPECT_EQ(again->size(), characters->size());
  EXPECT_EQ(again->learnt(), characters->learnt());
  EXPECT_EQ(encoded(*words_again, "or to be"), encoded(*words, "or to be"));
  EXPECT_TRUE(make_character_vocabulary(Characters::kAscii)->learnt().empty());
  expect_invalid([] { make_character_vocabulary(Characters::kData, {"A"}); }, {"'A'"});
}

TEST(Vocabulary, RefusesWhatIsNotUtf8) {
  const auto vocabulary = make_character_vocabulary(Characters::kAscii);
  for (const std::string bad :
       {"\xE9t\xE9", "\xC0\x80", "\xED\xA0\x80", "\xF4\x90\x80\x80", "\xE2\x82", "\x80"}) {
    expect_invalid([&] { vocabulary->count("ok" + bad, "play.txt"); },
                   {"not UTF-8", "play.txt, byte 2"});
  }
}

const std::string kPlay =
    "A prologue that is nobody's.\n\nFirst:\nabcdef\n\nSecond:\r\nxy\r\n\n\nFirst:\ngh\n\n"
    "and more\n\nMute:\n\nThird:\nz\n";

DataOptions play(const TempFolder& folder, int64_t window) {
  return {.kind = "text",
          .path = folder.write("play.txt", kPlay),
          .test_fraction = 0,
          .window = window};
}

std::string as_text(const std::vector<float>& tokens) {
  std::string text;
  for (const float token : tokens) {
    const int code = static_cast<int>(token);
    text += code == 0 ? '_' : code == 1 ? '|' : static_cast<char>(code + 30);
  }
  return text;
}

TEST(Roles, EachSampleIsAWindowAndTheNextCharacter) {
  const TempFolder folder;
  const Written play_data(*make_role_source(play(folder, 3), 1));
  ASSERT_EQ(play_data.layout.clients.size(), 2U);  // Mute and Third have nothing to predict
  EXPECT_EQ(play_data.layout.storage, Storage::kToken);
  EXPECT_EQ(play_data.layout.classes, 97);
  // "abcdef|gh|and more": the speeches of First, joined.
  const ClientRanges first = play_data.layout.clients[0];
  EXPECT_EQ(first.end - first.begin, 17);
  EXPECT_EQ(as_text(play_data.sample(first.begin)), "__a");
  EXPECT_EQ(as_text(play_data.sample(first.begin + 2)), "abc");
  EXPECT_EQ(as_text(play_data.sample(first.end - 1)), "mor");
  EXPECT_EQ(play_data.labels[static_cast<std::size_t>(first.begin)], 'b' - 30);
  EXPECT_EQ(play_data.labels[static_cast<std::size_t>(first.begin + 5)], 1);
  EXPECT_EQ(play_data.labels[static_cast<std::size_t>(first.end - 1)], 'e' - 30);
  const ClientRanges second = play_data.layout.clients[1];
  EXPECT_EQ(second.end - second.begin, 1);
  EXPECT_EQ(as_text(play_data.sample(second.begin)), "__x");
}

TEST(Roles, WhatIsLeftOutIsSaid) {
  const TempFolder folder;
  DataOptions options = play(folder, 3);
  EXPECT_EQ(make_role_source(options, 1)->layout().unread,
            (std::vector<std::string>{"1 paragraph before the first role speaks",
                                      "2 of 4 clients, which have too little text"}));
  options.path = folder.write("tabs.txt", "A:\n\tcaf\xC3\xA9 tabs\n");
  EXPECT_EQ(make_role_source(options, 1)->layout().unread,
            (std::vector<std::string>{"2 characters that data.vocabulary = ascii does not have"}));
  options.vocabulary = Characters::kData;
  EXPECT_TRUE(make_role_source(options, 1)->layout().unread.empty());
}

TEST(Roles, TheStrideSkipsPredictions) {
  const TempFolder folder;
  DataOptions options = play(folder, 4);
  options.stride = 5;
  const Written all(*make_role_source(options, 1));
  const ClientRanges first = all.layout.clients[0];
  EXPECT_EQ(first.end - first.begin, 4);  // characters 1, 6, 11, 16 of 18
  EXPECT_EQ(as_text(all.sample(first.begin + 1)), "cdef");
  EXPECT_EQ(all.labels[static_cast<std::size_t>(first.begin + 1)], 1);
}

// "abcdef|gh|and more": 18 characters, "xy" of the second.
TEST(Roles, EveryTokenOfAWindowHasATarget) {
  const TempFolder folder;
  DataOptions options = play(folder, 7);
  options.targets = TextTargets::kEvery;
  const Written all(*make_role_source(options, 1));
  EXPECT_EQ(all.layout.label_values, 7);
  const ClientRanges first = all.layout.clients[0];
  ASSERT_EQ(first.end - first.begin, 3);
  const auto targets = [&](int64_t sample) {
    std::vector<float> own;
    for (int64_t i = 7 * sample; i < 7 * sample + 7; ++i) {
      const int32_t label = all.labels[static_cast<std::size_t>(i)];
      own.push_back(static_cast<float>(label < 0 ? '#' - 30 : label));
    }
    return as_text(own);
  };
  EXPECT_EQ(as_text(all.sample(first.begin)), "abcdef|");
  EXPECT_EQ(targets(first.begin), "bcdef|g");
  EXPECT_EQ(as_text(all.sample(first.begin + 1)), "gh|and ");
  EXPECT_EQ(targets(first.begin + 1), "h|and m");
  EXPECT_EQ(as_text(all.sample(first.begin + 2)), "mor____");
  EXPECT_EQ(targets(first.begin + 2), "ore####");
  const ClientRanges second = all.layout.clients[1];
  EXPECT_EQ(targets(second.begin), "y######");
  options.stride = 10;
  const Written apart(*make_role_source(options, 1));
  EXPECT_EQ(apart.layout.clients[0].end, 2);
  EXPECT_EQ(as_text(apart.sample(1)), "and mor");
  options.test_fraction = 0.5;  // no window reaches into the test
  const Written halves(*make_role_source(options, 1));
  EXPECT_EQ(as_text(halves.sample(halves.layout.clients[0].test_begin())), "|and mo");
  options.window = 1;
  expect_invalid([&] { make_role_source(options, 1); }, {"window of 1", "data.window"});
}

TEST(Roles, NoWindowReachesFromTrainingIntoTest) {
  const TempFolder folder;
  DataOptions options = play(folder, 20);
  options.test_fraction = 0.5;
  const Written all(*make_role_source(options, 1));
  const ClientRanges first = all.layout.clients[0];
  EXPECT_EQ(first.train_end - first.begin, 8);
  EXPECT_EQ(first.end - first.train_end, 8);
  EXPECT_EQ(as_text(all.sample(first.train_end - 1)), "____________abcdef|g");
  EXPECT_EQ(as_text(all.sample(first.train_end)), "___________________|");
  EXPECT_EQ(all.layout.clients[1].train_end, all.layout.clients[1].end);  // two characters train
}

TEST(Roles, ValidationIsTheEndOfTheTrainingText) {
  const TempFolder folder;
  DataOptions options = play(folder, 20);
  options.test_fraction = 0.5;
  options.validation_fraction = 3;
  expect_invalid([&] { make_role_source(options, 1); },
                 {"client 'Second' would have nothing to train on", "2 tokens"});
  const Written all(*make_role_source(options, 2));  // without Second
  const ClientRanges first = all.layout.clients[0];  // "abcdef|gh": 9 characters before the test
  EXPECT_EQ(first.train_end - first.begin, 5);
  EXPECT_EQ(first.validation, 2);
  EXPECT_EQ(first.end - first.test_begin(), 8);
  EXPECT_EQ(as_text(all.sample(first.train_end - 1)), "_______________abcde");
  EXPECT_EQ(as_text(all.sample(first.train_end)), "___________________|");
  EXPECT_EQ(all.labels[static_cast<std::size_t>(first.test_begin() - 1)], 'h' - 30);
  EXPECT_EQ(as_text(all.sample(first.test_begin())), "___________________|");
}

TEST(Roles, SmallRolesAreLeftOut) {
  const TempFolder folder;
  EXPECT_EQ(Written(*make_role_source(play(folder, 3), 2)).layout.clients.size(), 1U);
  expect_invalid([&] { make_role_source(play(folder, 3), 18); }, {"18 training samples"});
}

TEST(Roles, FilesWithoutRolesOrOfOtherBytesAreRefused) {
  const TempFolder folder;
  DataOptions options = play(folder, 3);
  options.path = folder.write("prose.txt", "No role.\n\nNone: at all\n");
  expect_invalid([&] { make_role_source(options, 1); }, {"no role speaks", "prose.txt"});
  options.path = folder.write("latin.txt", "A:\nb\n\nB:\nc\xE9\n");
  expect_invalid([&] { make_role_source(options, 1); }, {"not UTF-8", "latin.txt:5"});
  options.window = 0;
  options.path = folder.write("good.txt", kPlay);
  expect_invalid([&] { make_role_source(options, 1); }, {"window of 0"});
}

}  // namespace
}  // namespace hanse
