// In builds with CUDA: what a profiler sees, by a profiler of the test's.
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nvtx3/nvToolsExt.h>

#include "hanse/base/scope.hpp"

namespace {

std::vector<std::string> seen;

nvtxDomainHandle_t NVTX_API create(const char* name) {
  seen.push_back(std::string("domain ") + name);
  return reinterpret_cast<nvtxDomainHandle_t>(&seen);
}

int NVTX_API push(nvtxDomainHandle_t, const nvtxEventAttributes_t* range) {
  seen.emplace_back(range->message.ascii);
  if (range->payloadType == NVTX_PAYLOAD_TYPE_INT64) {
    seen.back() += " " + std::to_string(range->payload.llValue);
  }
  return 0;
}

int NVTX_API pop(nvtxDomainHandle_t) {
  seen.emplace_back("end");
  return 0;
}

int NVTX_API inject(NvtxGetExportTableFunc_t tables) {
  const auto* callbacks = static_cast<const NvtxExportTableCallbacks*>(tables(NVTX_ETID_CALLBACKS));
  NvtxFunctionTable table = nullptr;
  unsigned size = 0;
  if (!callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &table, &size)) return 0;
  *table[NVTX_CBID_CORE2_DomainCreateA] = reinterpret_cast<NvtxFunctionPointer>(create);
  *table[NVTX_CBID_CORE2_DomainRangePushEx] = reinterpret_cast<NvtxFunctionPointer>(push);
  *table[NVTX_CBID_CORE2_DomainRangePop] = reinterpret_cast<NvtxFunctionPointer>(pop);
  return 1;
}

}  // namespace

namespace hanse {
namespace {

TEST(NvtxRanges, AreThePhasesClientsAndMessages) {
  InitializeInjectionNvtx2_fnptr = inject;  // before the first range
  {
    const Scope training(Phase::kTraining);
    const Scope client("client", 7);
    const Scope message("bcast", -1, 4096);
  }
  const Scope wait("wait");
  EXPECT_EQ(seen, (std::vector<std::string>{"domain hanse", "training", "client 7", "bcast 4096",
                                            "end", "end", "end", "wait"}));
}

}  // namespace
}  // namespace hanse
