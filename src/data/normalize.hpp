// Images centred and scaled channel by channel.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "hanse/data/dataset.hpp"

namespace hanse {

// Calls its argument with every training sample [product of the shape], one after another.
using EachSample = std::function<void(const std::function<void(const float*)>&)>;

// The scale of each channel of images of `shape` {channels, height, width}, by data.normalize:
// "none" (empty), "all" (over all clients' training samples; a deviation of 0 counts as 1), or the
// means of all channels and then their deviations, "0.5,0.5,0.5,0.2,0.2,0.2". Cost with "all": two
// passes over the training samples. Throws InvalidArgument: samples that are no images, another
// count of numbers, a deviation that is not positive.
std::vector<ChannelScale> channel_scales(const std::string& text, const std::vector<int64_t>& shape,
                                         const EachSample& each_sample);

}  // namespace hanse
