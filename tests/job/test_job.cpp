// Job files: what is read, what is refused and where, and that a written one says the same.
#include <algorithm>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "hanse/base/error.hpp"
#include "hanse/job/keyed_job.hpp"
#include "hanse/run/catalog.hpp"
#include "hanse/run/load_job.hpp"
#include "support/errors.hpp"
#include "support/scratch_folder.hpp"

namespace hanse {
namespace {

// A job file in a folder of its own.
struct JobFile {
  explicit JobFile(const std::string& text, const std::string& name = "small.cfg")
      : path(folder / name) {
    std::ofstream(path, std::ios::binary) << text;
  }
  ScratchFolder folder;
  std::string path;
};

void expect_refused(const std::string& text, std::initializer_list<std::string> parts) {
  const JobFile file(text);
  KeyedJob job(catalog());
  expect_error<InvalidArgument>([&] { load_job(file.path, {}, job); }, parts);
}

TEST(LoadJob, ReadsSectionsKeysAndComments) {
  const JobFile file(
      "# a comment\n"
      "\n"
      "[run]\n"
      "rounds = 12   # as many\n"
      "  seed=3\n"
      "name = two words\r\n"
      "[federation]\n"
      "sizes = 2, 4 ,6\n"
      "size-probabilities = 0.5,0.25,0.25\n"
      "[data]\n"
      "path = /a=b/c d\n"
      "labels =\n"
      "[run]\n"
      "threads = 2");  // no newline at the end
  KeyedJob job(catalog());
  load_job(file.path, {}, job);
  EXPECT_EQ(job.run.rounds, 12);
  EXPECT_EQ(job.run.seed, 3);
  EXPECT_EQ(job.run.threads, 2);
  EXPECT_EQ(job.run.name, "two words");
  EXPECT_EQ(job.run.out, "runs/two words");
  EXPECT_EQ(job.federation.sizes, (std::vector<int64_t>{2, 4, 6}));
  EXPECT_EQ(job.federation.size_probabilities, (std::vector<double>{0.5, 0.25, 0.25}));
  EXPECT_EQ(job.data.path, "/a=b/c d");
  EXPECT_TRUE(job.data.labels.empty());
  EXPECT_EQ(job.table.at("run.rounds").where, file.path + ":4");
  EXPECT_EQ(job.table.at("run.threads").where, file.path + ":14");
  EXPECT_FALSE(job.table.at("client.lr").given);
}

// The words stand beside the enums, in their order.
TEST(LoadJob, AWordIsTheValueOfItsName) {
  const JobFile file(
      "[run]\ndevice = cpu\ndevice-graphs = off\n[data]\nstandardize = client\n"
      "[model]\ninit = zeros\n[sampler]\nvariant = corrected\nrestart = uniform\n"
      "[aggregator]\nweights = uniform\nestimator = unbiased\nabsent = window\n"
      "cdf = logistic\nvariant = reference\n[server]\nrole = dedicated\n[comm]\n"
      "compress = sign\nreduction = fast\ndispatch = planned\ndevices = staged\n"
      "[evaluate]\non = both\nview = global\ntest = common\n[checkpoint]\non-error = stop\n"
      "[bandit]\narms = branin\nucb = ellipsoid\nstatistics = per-arm\nmodels = shared\n"
      "gradients = first\n[online]\norder = predict-then-train\ngamma = ridge-all\n"
      "drift = swap\nmixing = in-place\nvariant = corrected\n");
  KeyedJob job(catalog());
  load_job(file.path, {}, job);
  EXPECT_EQ(job.run.device, RunDevice::kCpu);
  EXPECT_EQ(job.run.device_graphs, DeviceGraphs::kOff);
  EXPECT_EQ(job.data.standardize, Standardize::kClient);
  EXPECT_EQ(job.data.test, OwnTests::kCommon);
  EXPECT_EQ(job.model.init, ModelInit::kZeros);
  EXPECT_EQ(job.sampler.learning.variant, Variant::kCorrected);
  EXPECT_EQ(job.sampler.learning.restart, Restart::kUniform);
  EXPECT_EQ(job.aggregator.weights, ClientWeights::kUniform);
  EXPECT_EQ(job.aggregator.estimator, Estimator::kUnbiased);
  EXPECT_EQ(job.aggregator.absent, AbsentClients::kWindow);
  EXPECT_EQ(job.aggregator.cdf, Cdf::kLogistic);
  EXPECT_EQ(job.aggregator.variant, Variant::kReference);
  EXPECT_EQ(job.server.role, ServerRole::kDedicated);
  EXPECT_EQ(job.compression.compress, Compress::kSign);
  EXPECT_EQ(job.comm.reduction, Reduction::kFast);
  EXPECT_EQ(job.comm.dispatch, AskedDispatch::kPlanned);
  EXPECT_EQ(job.comm.devices, DeviceLinks::kStaged);
  EXPECT_EQ(job.evaluate.on, EvaluateOn::kBoth);
  EXPECT_EQ(job.evaluate.view, EvaluateView::kGlobal);
  EXPECT_EQ(job.checkpoint.on_error, OnError::kStop);
  EXPECT_EQ(job.bandit.arms, ArmSource::kBranin);
  EXPECT_EQ(job.bandit.ucb, UpperBound::kEllipsoid);
  EXPECT_EQ(job.bandit.statistics, AskedStatistics::kPerArm);
  EXPECT_EQ(job.bandit.models, BanditModels::kShared);
  EXPECT_EQ(job.bandit.gradients, GradientsAt::kFirst);
  EXPECT_EQ(job.online.order, OnlineOrder::kPredictThenTrain);
  EXPECT_EQ(job.online.gamma, NodeEstimate::kRidgeAll);
  EXPECT_EQ(job.online.drift, Drift::kSwap);
  EXPECT_EQ(job.online.mixing, MixingOrder::kInPlace);
  EXPECT_EQ(job.online.variant, ExpertLosses::kCorrected);
}

TEST(LoadJob, AnEmptyFileIsTheDefaults) {
  const JobFile file("", "plain.job.cfg");
  KeyedJob job(catalog());
  load_job(file.path, {}, job);
  EXPECT_EQ(job.run.name, "plain.job");
  EXPECT_EQ(job.run.out, "runs/plain.job");
  EXPECT_EQ(job.run.rounds, RunOptions().rounds);
  for (const Option& option : job.table.options()) EXPECT_FALSE(option.given) << option.key;
}

TEST(LoadJob, TheCommandLineWins) {
  const JobFile file("[run]\nrounds = 12\nout = here\n[client]\nlr = 0.5\n");
  KeyedJob job(catalog());
  load_job(file.path, {{"run.rounds", "7"}, {"run.rounds", "8"}, {"client.momentum", "0.9"}}, job);
  EXPECT_EQ(job.run.rounds, 8);
  EXPECT_EQ(job.run.out, "here");
  EXPECT_EQ(job.client.lr, 0.5);
  EXPECT_EQ(job.client.momentum, 0.9);
  EXPECT_EQ(job.table.at("run.rounds").where, "--run.rounds");
  expect_error<InvalidArgument>(
      [&] {
        load_job(file.path, {{"run.round", "7"}}, job);
      },
      {"unknown key 'run.round'", "(--run.round)", "run.rounds"});
  expect_error<InvalidArgument>(
      [&] {
        load_job(file.path, {{"client.lr", "0"}}, job);
      },
      {"client.lr: 0 is out of range (0, inf)", "(--client.lr)"});
}

TEST(LoadJob, NamesTheLineOfWhatItRefuses) {
  expect_refused("[run]\nrounds = 1\n\nrounds = 2\n",
                 {"'run.rounds' stands twice", "small.cfg:4", "line 2"});
  expect_refused("[run]\nrounds = 1\n[data]\n[run]\nrounds = 2\n", {"stands twice", "small.cfg:5"});
  expect_refused("[run]\nout = a#b\n", {"'#' inside a value", "small.cfg:2", "hint: "});
  expect_refused("\n[run]\nrounds 3\n", {"'rounds 3' is neither", "small.cfg:3"});
  expect_refused("[run\nrounds = 3\n", {"'[run' is neither", "small.cfg:1"});
  expect_refused("[run]\nround = 3\n", {"unknown key 'run.round'", "small.cfg:2", "'run.rounds'"});
  expect_refused("[run]\nroun = 3\n", {"unknown key 'run.roun'", "small.cfg:2"});
  expect_refused("[sampel]\n\nkind = full\n",
                 {"unknown section 'sampel'", "small.cfg:3", "'sampler'", "client"});
  expect_refused("rounds = 3\n", {"'rounds'", "small.cfg:1"});
  expect_refused("[sampler]\nkind = unifrom\n", {"sampler.kind", "'unifrom'", "small.cfg:2",
                                                 "did you mean 'uniform'", "weighted"});
}

TEST(LoadJob, NamesTheKeyThatHasAMethod) {
  expect_refused("[aggregator]\nkind = fedprox\n",
                 {"small.cfg:2", "did you mean client.update = prox?"});
  expect_refused("[aggregator]\nkind = scaffold\n", {"did you mean client.update = scaffold?"});
  expect_refused("[aggregator]\nkind = fedadam\n", {"did you mean server.optimizer = adam?"});
  expect_refused("[sampler]\nkind = fedavg\n", {"did you mean aggregator.kind = fedavg?"});
  expect_refused("[aggregator]\nkind = fedbn\n", {"did you mean client.personal?"});
  expect_refused("[client]\nupdate = FedPer\n", {"did you mean client.personal?"});
  expect_refused("[model]\nkind = cnn\n", {"did you mean 'cnn-leaf'? known: linear,"});
}

TEST(LoadJob, NamesTheLineOfABadValue) {
  expect_refused("[run]\nrounds = 0\n", {"run.rounds", "out of range [1, inf)", "small.cfg:2"});
  expect_refused("[run]\nrounds = 1.5\n", {"'1.5' is not an integer", "small.cfg:2"});
  expect_refused("[run]\nrounds =\n", {"'' is not an integer", "small.cfg:2"});
  expect_refused("[client]\nlr = nan\n", {"'nan' is not a number", "small.cfg:2"});
  expect_refused("[client]\nlr = inf\n", {"inf is out of range (0, inf)", "small.cfg:2"});
  expect_refused("[sampler]\nalpha = 0\n", {"sampler.alpha", "out of range (0, 1]", "small.cfg:2"});
  expect_refused("[client]\nlr = 1 2\n", {"'1 2' is not a number"});
  expect_refused("[federation]\nsizes = 1,0\n", {"federation.sizes", "0 is out of range"});
}

TEST(LoadJob, RefusesWhatIsNoFile) {
  KeyedJob job(catalog());
  const ScratchFolder folder;
  expect_error<InvalidArgument>([&] { load_job(folder.path(), {}, job); },
                                {"is a directory", folder.path()});
  expect_error<InvalidArgument>([&] { load_job(folder / "none.cfg", {}, job); },
                                {"cannot read", "No such file", "none.cfg", "hint: "});
  std::ofstream(folder / "binary.cfg") << "[run]\n\x7f"
                                          "ELF\x1b[31m\n";
  expect_error<InvalidArgument>([&] { load_job(folder / "binary.cfg", {}, job); },
                                {"the job file is no text (" + (folder / "binary.cfg")});
}

TEST(LoadJob, ReadsWhatEditorsWrite) {
  const auto rounds_of = [](const std::string& text) {
    const JobFile file(text);
    KeyedJob job(catalog());
    load_job(file.path, {}, job);
    EXPECT_TRUE(job.run.trace);
    return job.run.rounds;
  };
  // A byte order mark, line ends of other systems, tabs, spaces that do not break.
  EXPECT_EQ(rounds_of("\xEF\xBB\xBF[run]\nrounds = 12\ntrace = True\n"), 12);
  EXPECT_EQ(rounds_of("[run]\r\nrounds = 12\r\ntrace = YES\r\n"), 12);
  EXPECT_EQ(rounds_of("[run]\rrounds = 12 # of them\rtrace = On"), 12);
  EXPECT_EQ(rounds_of("\t[ run ]\n\trounds\t=\t12\t# of them\ntrace\t=\tTRUE\n"), 12);
  EXPECT_EQ(rounds_of("[run]\u00a0\nrounds\u00a0=\u00a0 12\u00a0\n\u00a0trace = true\n"), 12);
  const std::string text = "[run]\nrounds = 12\n";
  std::string little = "\xFF\xFE", big = "\xFE\xFF";
  for (const char c : text) {
    little += std::string{c, '\0'};
    big += std::string{'\0', c};
  }
  for (const std::string& utf16 : {little, big, little.substr(2), big.substr(2)}) {
    expect_refused(utf16, {"the job file is UTF-16", "small.cfg", "hint: save it as UTF-8"});
  }
}

// The written job.cfg could not be read again.
TEST(LoadJob, RefusesValuesThatAJobFileCannotHold) {
  const JobFile file("");
  for (const std::string bad : {"a#b", "a #b", "a\nb", "#"}) {
    KeyedJob job(catalog());
    const auto message = message_of<InvalidArgument>([&] {
      load_job(file.path, {{"run.out", bad}}, job);
    });
    expect_parts(message, {"run.out"});
  }
  const JobFile odd("", "odd#name.cfg");
  KeyedJob job(catalog());
  expect_error<InvalidArgument>([&] { load_job(odd.path, {}, job); }, {"run.name"});
}

TEST(JobText, IsAJobThatGivesTheSameText) {
  const JobFile file(
      "[run]\nrounds = 12\nname = two words\n[client]\nlr = 0.1\nweight-decay = 1e-5\n"
      "[data]\nlabels = 3,1\n[federation]\nsize-probabilities = 0.3,0.7\nsizes = 1,2\n"
      "[sampler]\nkind = full\n");
  KeyedJob job(catalog());
  load_job(file.path, {{"client.momentum", "0.3333333333333333"}}, job);
  const std::string text = job_text(job);
  const JobFile written(text, "another.cfg");
  KeyedJob again(catalog());
  load_job(written.path, {}, again);
  EXPECT_EQ(job_text(again), text);
  EXPECT_EQ(again.client.momentum, 0.3333333333333333);
  EXPECT_EQ(again.run.name, "two words");
}

TEST(JobText, HoldsEveryOptionResolved) {
  const JobFile file("", "plain.cfg");
  KeyedJob job(catalog());
  load_job(file.path, {}, job);
  const std::string text = job_text(job);
  EXPECT_NE(text.find("name = plain\n"), std::string::npos);
  EXPECT_NE(text.find("out = runs/plain\n"), std::string::npos);
  std::size_t at = 0;  // the options stand in the table's order
  for (const Option& option : job.table.options()) {
    const auto line =
        fmt::format("\n{} = {}\n", option.key.substr(option.section().size() + 1), option.format());
    at = text.find(line, at);
    ASSERT_NE(at, std::string::npos) << option.key;
    EXPECT_FALSE(option.help.empty()) << option.key;
  }
}

// The learning rates depend on the horizon: extending a run must not change its earlier rounds.
TEST(JobText, StoresTheHorizonOfTheFirstStart) {
  const auto horizon_of = [](const std::string& path, const Overrides& overrides) {
    KeyedJob job(catalog());
    load_job(path, overrides, job);
    return std::pair(job.sampler.learning.horizon, job_text(job));
  };
  const JobFile file("[run]\nrounds = 12\n[sampler]\nkind = adaptive-osmd\n");
  const auto [horizon, text] = horizon_of(file.path, {});
  EXPECT_EQ(horizon, 12);
  EXPECT_EQ(horizon_of(file.path, {{"run.rounds", "7"}}).first, 7);
  EXPECT_EQ(horizon_of(file.path, {{"sampler.horizon", "30"}}).first, 30);
  const JobFile written(text, "job.cfg");
  EXPECT_EQ(horizon_of(written.path, {{"run.rounds", "500"}}).first, 12);
}

// Every name of a choice can be set, and every kind an option is for exists.
TEST(Job, NamesAreThoseOfTheCatalog) {
  KeyedJob job(catalog());
  for (const KindFamily& family : catalog()) {
    ASSERT_TRUE(job.table.contains(family.key));
    const auto names = family.several ? std::vector<std::string>() : names_of(family.rows);
    EXPECT_EQ(job.table.at(family.key).choices, names);
    for (const auto& entry : family.rows) job.table.set(family.key, entry.name, "");
  }
  for (const Option& option : job.table.options()) {
    for (const KindUse& use : option.uses) {
      ASSERT_TRUE(job.table.contains(use.selector)) << option.key;
      const auto& choices = job.table.at(use.selector).choices;
      EXPECT_EQ(std::count(choices.begin(), choices.end(), use.kind), 1)
          << option.key << " for " << use.kind;
    }
  }
}

// Keys of kinds that are not chosen, whatever their section, and of sections that are not read.
TEST(UnusedKeys, FollowTheKindsOfEverySection) {
  const auto unused = [](const Overrides& overrides) {
    const JobFile file("[data]\nkind = random\n");
    KeyedJob job(catalog());
    load_job(file.path, overrides, job);
    return unused_keys(job);
  };
  using Keys = std::vector<std::string>;
  EXPECT_EQ(unused({{"client.pairs", "5"}}), Keys{"client.pairs (aggregator.kind=fedavg)"});
  EXPECT_EQ(unused({{"client.pairs", "5"}, {"aggregator.kind", "dqn-fed"}}), Keys{});
  EXPECT_EQ(unused({{"client.mu", "1"}}), Keys{"client.mu (client.update=sgd)"});
  // What the sampler learns from depends on the weights, whatever the rule.
  const Overrides weighted{{"aggregator.kind", "afl"}, {"aggregator.weights", "uniform"}};
  EXPECT_EQ(unused(weighted), Keys{"aggregator.weights (aggregator.kind=afl)"});
  auto learned = weighted;
  learned.emplace_back("sampler.kind", "osmd");
  EXPECT_EQ(unused(learned), Keys{});
  EXPECT_EQ(unused({{"run.protocol", "online"}, {"client.lr", "1"}}), Keys{"client.lr"});
  EXPECT_EQ(unused({{"run.protocol", "local"}, {"client.mu", "1"}}).size(), 1U);
  // With the values of the defaults nobody asks for anything.
  EXPECT_EQ(unused({{"client.pairs", KeyedJob(catalog()).table.at("client.pairs").default_text}}),
            Keys{});
}

// A run's own job.cfg gives every key; what the job does not use has its default there.
TEST(UnusedKeys, AreNotThoseOfAWrittenJob) {
  for (const Overrides& chosen : {Overrides{},
                                  {{"run.protocol", "online"}},
                                  {{"model.kind", "lstm"}},
                                  {{"sampler.kind", "osmd"}}}) {
    const JobFile file("[data]\nkind = random\n[run]\nrounds = 7\n");
    KeyedJob job(catalog());
    load_job(file.path, chosen, job);
    const JobFile written(job_text(job), "job.cfg");
    KeyedJob again(catalog());
    load_job(written.path, {}, again);
    EXPECT_EQ(unused_keys(again), std::vector<std::string>{});
    EXPECT_EQ(job_text(again), job_text(job));
  }
}

TEST(LoadJob, GivesAKeyTheDefaultOfTheChosenKind) {
  const auto job_of = [](const std::string& kind) {
    const JobFile file("[model]\nkind = " + kind + "\n");
    auto job = std::make_unique<KeyedJob>(catalog());
    load_job(file.path, {}, *job);
    return job;
  };
  EXPECT_EQ(job_of("lstm")->model.embedding, 8);
  EXPECT_EQ(job_of("transformer")->model.embedding, 64);
  EXPECT_EQ(job_of("linear")->model.embedding, 0);
}

TEST(CheckJob, RefusesCombinationsThatCannotWork) {
  const auto refused = [](const Overrides& overrides, std::initializer_list<std::string> parts) {
    const JobFile file("[data]\nkind = random\n");
    KeyedJob job(catalog());
    expect_error<InvalidArgument>(
        [&] {
          load_job(file.path, overrides, job);
          check_job(job);
        },
        parts);
  };
  refused({{"data.kind", "csv"}, {"data.path", "/no/such.csv"}}, {"/no/such.csv", "data.path"});
  refused({{"data.kind", "csv"}}, {"data.kind = csv needs a file or a folder", "data.path"});
  refused({{"data.shape", ""}}, {"data.shape"});
  refused({{"model.kind", "mlp"}, {"model.hidden", ""}}, {"model.hidden"});
  refused({{"comm.reduction", "fast"}, {"comm.dispatch", "shared"}}, {"comm.dispatch", "planned"});
  refused({{"federation.partition", "sizes"}, {"federation.sizes", "1,2"}},
          {"2 sizes but 4 probabilities"});
  refused({{"federation.partition", "sizes"},
           {"federation.size-probabilities", "0.5,0.25,0.03125,0.03125"}},
          {"sum to 0.8"});
  refused({{"sampler.eta", "-0.5"}}, {"'-0.5'", "sampler.eta", "auto"});
  refused({{"sampler.eta", "large"}}, {"'large'", "sampler.eta", "auto"});
  refused({{"sampler.gamma", "-1"}}, {"'-1'", "sampler.gamma"});
  refused({{"sampler.a-max", "largest"}}, {"'largest'", "sampler.a-max", "running"});
  refused({{"sampler.a-max", "0"}}, {"'0'", "sampler.a-max"});
  refused({{"sampler.availability", "sometimes"}}, {"'sometimes'", "sampler.availability"});
  const JobFile file("[data]\nkind = random\n[run]\ndevice = cuda\n");
  KeyedJob job(catalog());
  load_job(file.path, {}, job);
  expect_error<NotCompiled>([&] { check_job(job); }, {"CUDA", "run.device=cpu"});
  job.table.set("run.device", "cpu", "");
  check_job(job);
}

}  // namespace
}  // namespace hanse
