// The table of the scores of samples: which samples stand in it, and the same text on any ranks.
#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "hanse/base/options.hpp"
#include "hanse/comm/communicator.hpp"
#include "hanse/evaluation/evaluation.hpp"
#include "hanse/evaluation/sample_table.hpp"
#include "support/errors.hpp"
#include "support/scratch_folder.hpp"
#include "support/thread_communicator.hpp"

namespace hanse {
namespace {

std::string text_of(const SampleTable& table, const Federation& federation) {
  std::string text = SampleTable::header(federation);
  for (std::size_t i = 0; i < table.parts(); ++i) text += table.lines(i, federation);
  return text;
}

// Evaluates a linear model whose i-th parameter is i / 10; the text on rank 0.
std::string evaluated(const Federation& federation, const std::string& loss,
                      const AskedMetrics& asked, Communicator& comm) {
  const auto model = make_model({.kind = "linear", .loss = loss}, federation.sample_shape(),
                                federation.label_form());
  std::vector<float> row(static_cast<std::size_t>(model->n_params()));
  for (std::size_t i = 0; i < row.size(); ++i) row[i] = static_cast<float>(i) / 10;
  RowEvaluator evaluator(federation, *model);
  evaluator.at(row);
  const auto all = evaluated_clients(federation, asked, 0);
  const EvaluationRequest request{.clients = evaluation_share(comm, federation, all),
                                  .asked = asked};
  SampleTable table;
  evaluate_common_test(federation, evaluator, comm, "", asked, &table);
  evaluate(
      federation, request, [&](std::size_t) -> Evaluator& { return evaluator; }, nullptr, &table);
  table.gather(comm);
  EXPECT_TRUE(comm.rank() == 0 || table.empty());
  return comm.rank() == 0 ? text_of(table, federation) : "";
}

TEST(SampleTable, EverySampleOnceInItsFold) {
  const ScratchFolder folder;
  std::string table = "label,site,x,w\n";
  for (int i = 0; i < 40; ++i) table += fmt::format("{},{},{},1\n", i % 2, "abcd"[i % 4], 0.1 * i);
  std::ofstream(folder / "table.csv") << table;
  const DataOptions data{.kind = "csv",
                         .path = folder / "table.csv",
                         .test_fraction = 0.3,
                         .validation_fraction = 0.2,
                         .client_column = "site",
                         .rows = true};
  const FederationOptions options{.held_out = HeldOut::parse("b")};
  std::string alone;
  for (int ranks = 1; ranks <= 4; ++ranks) {
    run_threads(ranks, [&](Communicator& comm) {
      const auto federation = Federation::load(data, options, 1, comm);
      const std::string text = evaluated(federation, "binary-logistic",
                                         {.on = EvaluateOn::kBoth, .sample_table = true}, comm);
      if (comm.rank() > 0) return;
      if (ranks == 1) alone = text;
      EXPECT_EQ(text, alone) << ranks << " ranks";
      std::istringstream lines(text);
      std::string line;
      std::getline(lines, line);
      EXPECT_EQ(line, "client,row,fold,label,score");
      std::map<int, std::string> fold_of;
      std::map<std::string, int> folds;
      while (std::getline(lines, line)) {
        const auto fields = split_list(line);
        const int row = std::stoi(fields[1]);
        EXPECT_TRUE(fold_of.emplace(row, fields[2]).second) << line;
        ++folds[fields[0] + fields[2]];
        EXPECT_EQ(federation.names().clients.at(std::stoi(fields[0])),
                  std::string(1, "abcd"[row % 4]));
        EXPECT_EQ(std::stoi(fields[3]), row % 2);
        constexpr double z = 0.1 + 0.2;  // 0 x + 0.1 w + 0.2
        EXPECT_NEAR(parse_number(fields[4]), 1 / (1 + std::exp(-z)), 1e-6);
      }
      EXPECT_EQ(folds, (std::map<std::string, int>{{"0test", 3},
                                                   {"0train", 6},
                                                   {"0validation", 1},
                                                   {"1test", 3},
                                                   {"1train", 6},
                                                   {"1validation", 1},
                                                   {"2test", 3},
                                                   {"2train", 6},
                                                   {"2validation", 1},
                                                   {"3held-out", 9}}));
    });
  }
}

TEST(SampleTable, SeveralClassesOutputsAndNoTests) {
  const auto comm = make_single_communicator();
  const auto federation =
      Federation::load({.kind = "random", .test_fraction = 0, .shape = {2}, .classes = 3},
                       {.clients = 2, .samples = 5}, 1, *comm);
  const std::string text = evaluated(federation, "cross-entropy", {.sample_table = true}, *comm);
  std::istringstream lines(text);
  std::string line;
  std::getline(lines, line);
  EXPECT_EQ(line, "client,row,fold,label,score_0,score_1,score_2");
  int count = 0;
  for (; std::getline(lines, line); ++count) {
    const auto fields = split_list(line);
    EXPECT_EQ(fields[2], "train");  // each once, though they are tested on them, too
    EXPECT_EQ(fields[1], std::to_string(count));
    EXPECT_NEAR(parse_number(fields[4]) + parse_number(fields[5]) + parse_number(fields[6]), 1,
                1e-12);
  }
  EXPECT_EQ(count, 10);
  const ScratchFolder folder;
  std::ofstream(folder / "table.csv") << "x,s,t\n1,2,0.5\n2,-1,3\n";
  const auto numbers = Federation::load({.kind = "csv",
                                         .path = folder / "table.csv",
                                         .test_fraction = 0,
                                         .label_column = "s,t",
                                         .task = "regression",
                                         .rows = true},
                                        {.clients = 1}, 1, *comm);
  const std::string said = evaluated(numbers, "squared-error", {.sample_table = true}, *comm);
  EXPECT_TRUE(said.starts_with("client,row,fold,label_0,label_1,score_0,score_1\n")) << said;
  EXPECT_NE(said.find("\n0,0,train,2,0.5,0.2"), std::string::npos) << said;
}

// The samples of nobody stand in front, whatever rank has evaluated them.
TEST(SampleTable, TheCommonTestSet) {
  constexpr uint32_t kTests = 2500;  // three pieces
  const ScratchFolder folder;
  const auto big_endian = [](std::initializer_list<uint32_t> words) {
    std::string bytes;
    for (const uint32_t word : words) {
      for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(word >> shift);
    }
    return bytes;
  };
  for (const auto& [part, n] : {std::pair{"train", 8U}, {"t10k", kTests}}) {
    std::string pixels, labels;
    for (uint32_t i = 0; i < n; ++i) {
      pixels += {static_cast<char>(37 * i), static_cast<char>(i / 8)};
      labels += static_cast<char>(i % 3);
    }
    std::ofstream(folder / (part + std::string("-images-idx3-ubyte")), std::ios::binary)
        << big_endian({0x803, n, 1, 2}) << pixels;
    std::ofstream(folder / (part + std::string("-labels-idx1-ubyte")), std::ios::binary)
        << big_endian({0x801, n}) << labels;
  }
  const DataOptions data{.kind = "idx",
                         .path = folder.path(),
                         .test_fraction = 0,
                         .test = OwnTests::kCommon,
                         .rows = true};
  const AskedMetrics asked = [] {
    AskedMetrics metrics = asked_metrics("auroc-macro,ece,brier");
    metrics.sample_table = true;
    return metrics;
  }();
  std::string alone;
  Metrics first;
  for (int ranks = 1; ranks <= 4; ++ranks) {
    run_threads(ranks, [&](Communicator& comm) {
      const auto federation = Federation::load(data, {.clients = 2}, 1, comm);
      const std::string text = evaluated(federation, "cross-entropy", asked, comm);
      const auto model = make_model({.kind = "linear"}, {1, 1, 2}, 3);
      const std::vector<float> row = {1, -2, 0.5F, 3, -1, 2, 0.1F, -0.2F, 0.3F};
      RowEvaluator evaluator(federation, *model);
      const auto found = evaluate_common_test(federation, evaluator.at(row), comm, "", asked);
      if (comm.rank() > 0) return;
      if (ranks == 1) {
        alone = text;
        first = found;
        ASSERT_EQ(found.size(), 5U);
        EXPECT_EQ(found[3].first, "common_ece");
        // All samples at once say the same as the pieces.
        ScoredSamples whole(asked, 3, kTests, true);
        const auto sums = evaluator.range(federation.common_test(), whole.results());
        ScoreSums scores =
            sum_scores(asked.scores, federation, federation.common_test(), whole, sums.loss);
        add_whole_scores(asked.scores, federation, federation.common_test(), whole.said(), scores);
        EXPECT_EQ(found[2].second, scores[0].part);
        EXPECT_EQ(found[3].second, scores[1].part);
        EXPECT_NEAR(found[4].second, scores[2].part / kTests, 1e-12);
        EXPECT_TRUE(found[2].second > 0.3 && found[2].second < 0.7 && found[3].second > 0);
      }
      EXPECT_EQ(text, alone) << ranks << " ranks";
      EXPECT_EQ(found, first) << ranks << " ranks";
      EXPECT_NE(text.find("\n-1,8,test,0,"), std::string::npos);
      EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1 + 8 + kTests);
    });
  }
}

TEST(SampleTable, WhatHasNoScores) {
  const auto refuse = [](const LabelForm& labels, const std::string& part) {
    expect_error<InvalidArgument>([&] { check_asked({.sample_table = true}, labels); },
                                  {"evaluate.scores", part});
  };
  refuse(LabelForm(6, 9), "position");
  refuse(LabelForm(1001), "1000 classes at most");
  check_asked({.sample_table = true}, LabelForm(0, 3));
  check_asked({.sample_table = true}, LabelForm(0, 3, true));
}

}  // namespace
}  // namespace hanse
