// Parts that the rows of python and plugin share.
#pragma once

#include <string>
#include <vector>

#include "hanse/base/kind.hpp"
#include "hanse/job/job.hpp"
#include "hanse/kinds/own_rules.hpp"

namespace hanse {

// path, args and digest of a section; `key` makes keys of its RuleFile.
template <class Place>
Keys<Job> own_rule_keys(const KeyMaker<Job, Place>& key) {
  return {key("path", &RuleFile::path, "file of the rule"),
          key("args", &RuleFile::args, "what the rule receives: name=value, separated by commas"),
          key("digest", &RuleFile::digest,
              "digest of the file, which a run writes; another file is refused; empty: not known")};
}

// Rows of server.optimizer; rows of other families stand with their makers.
std::vector<KindRow<Job>> own_optimizer_rows();

}  // namespace hanse
