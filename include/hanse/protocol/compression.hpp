// Compression of updates before they are summed, as for a link between clients and server.
#pragma once

#include <cstdint>
#include <memory>

#include "hanse/model/layout.hpp"
#include "hanse/protocol/compression_options.hpp"
#include "hanse/protocol/update_stage.hpp"

namespace hanse {

// Compresses, by options.compress, the P values of an update that gradients train; buffers stay. k
// is options.keep (a share of P below 1, rounded, at least one; or a number), b is options.bits, u
// the row to be sent:
//   top-k     the k entries of largest |u|, the first among equals (Aji and Heafield 2017)
//   random-k  k entries drawn for each client and round (Stich et al. 2018)
//   sign      |u|_1/n sign(u), n the entries that are not 0, which stay 0 (Karimireddy et al. 2019)
//   quantize  levels of max |u| / (2^(b-1) - 1) (Alistarh et al. 2017)
// With options.error_feedback u is the update plus the rest e of the client's earlier messages,
// which it keeps: e <- u - sent (Seide et al. 2014; Karimireddy et al. 2019); levels are the
// nearest. Else u is the update, random-k sends P/k u, and levels are drawn among the two
// neighbours, so that both are right on average. Random numbers are those of seed, round and
// client. State with error feedback: P floats a client. Cost: two passes over the update; top-k
// selects in O(P). Null for options.compress = none. Throws InvalidArgument: a keep that is neither
// a share nor a number.
std::unique_ptr<UpdateStage> make_compression(const CompressionOptions& options,
                                              const ParameterLayout& layout);

}  // namespace hanse
