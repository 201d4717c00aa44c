// The coefficients of a linear model, in words.
#pragma once

#include <span>
#include <string>

#include "hanse/data/feature_record.hpp"

namespace hanse {

// A table of a linear model's coefficients, weight [outputs, values] and bias [outputs], of the
// record's values. Of classes they are logarithms of odds: two classes are one logistic regression;
// of several, each is shown against the first one; of several labels, each against its absence. The
// columns are the coefficient, which belongs to an input of the model, and its effect per unit of
// the table and per deviation: odds ratios of classes, slopes of numbers to predict. Where inputs
// were not standardized a deviation is not known; where each client has its own, a unit.
std::string coefficients_text(const FeatureRecord& record, std::span<const float> weight,
                              std::span<const float> bias);

}  // namespace hanse
