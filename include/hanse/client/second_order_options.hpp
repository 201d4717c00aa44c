// Options of the updates that use Hessians.
#pragma once

#include <array>
#include <cstdint>

namespace hanse {

enum class Compressor { kRank, kTop };
constexpr auto choices_of(Compressor) { return std::array{"rank", "top"}; }
enum class HessianStart { kHessian, kZero };
constexpr auto choices_of(HessianStart) { return std::array{"hessian", "zero"}; }
enum class Safeguard { kFrobenius, kProjection };
constexpr auto choices_of(Safeguard) { return std::array{"frobenius", "projection"}; }

// Options of the updates in second_order.hpp.
struct SecondOrderOptions {
  double alpha = 0.05;       // fednew: damping of the Newton direction; feddyn: of its regulariser
  double rho = 0.1;          // fednew: penalty on y_i - y; fedsam: radius
  double tolerance = 1e-5;   // fednew: of the residual, relative
  int64_t iterations = 100;  // fednew: most Hessian-vector products a round
  Compressor compressor = Compressor::kRank;  // fednl
  int64_t rank = 1;                           // of Compressor::kRank
  int64_t top = 0;                            // of Compressor::kTop; 0: 8 P
  double hessian_rate = 1;                    // fednl: share of a correction that is applied
  HessianStart hessian_start = HessianStart::kHessian;  // fednl
  Safeguard safeguard = Safeguard::kFrobenius;          // fednl
  double least_eigenvalue = 1e-3;                       // of Safeguard::kProjection
};

}  // namespace hanse
