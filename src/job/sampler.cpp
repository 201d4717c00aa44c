#include "bind.hpp"
#include "hanse/job/job.hpp"

namespace hanse {

void bind_sampler(OptionTable& table, Job& job) {
  table.add("sampler.availability", job.sampler.availability,
            "who is there: always; a probability in (0, 1]; blocks(n) or blocks(n, rounds), one of "
            "n blocks of clients at a time; or a file of lines client,first round,last round");
}

}  // namespace hanse
