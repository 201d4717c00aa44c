// The families whose rows stand in this folder, a file each, and what their rows of python and
// plugin share.
#pragma once

#include "hanse/base/kind.hpp"
#include "hanse/job/job.hpp"
#include "hanse/job/kind.hpp"

namespace hanse {

KindFamily sampler_family();
KindFamily aggregator_family();
KindFamily attack_family();
KindFamily privacy_family();
KindFamily update_family();
KindFamily expert_family();
KindFamily bandit_family();
KindFamily clock_family();
KindFamily async_family();
KindFamily statistics_family();

// path, args and digest of a section; `key` makes keys of its RuleFile.
template <class Place>
Keys<Job> own_rule_keys(const KeyMaker<Job, Place>& key) {
  return {key("path", &RuleFile::path, "file of the rule"),
          key("args", &RuleFile::args, "what the rule receives: name=value, separated by commas"),
          key("digest", &RuleFile::digest,
              "digest of the file, which a run writes; another file is refused; empty: not known")};
}

}  // namespace hanse
