// A rank's spans as ranges of NVIDIA's profilers, in builds with CUDA; elsewhere nothing is
// compiled.
#pragma once

#include <cstdint>

#ifdef HANSE_NVTX
#include <nvtx3/nvToolsExt.h>
#endif

namespace hanse {

#ifdef HANSE_NVTX

inline nvtxDomainHandle_t nvtx_domain() {
  static const nvtxDomainHandle_t domain = nvtxDomainCreateA("hanse");
  return domain;
}

// `name`: a literal. `payload`: a number that stands beside it, such as the client; below 0: none.
inline void open_range(const char* name, int64_t payload = -1) {
  nvtxEventAttributes_t attributes{};
  attributes.version = NVTX_VERSION;
  attributes.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  attributes.messageType = NVTX_MESSAGE_TYPE_ASCII;
  attributes.message.ascii = name;
  if (payload >= 0) {
    attributes.payloadType = NVTX_PAYLOAD_TYPE_INT64;
    attributes.payload.llValue = payload;
  }
  nvtxDomainRangePushEx(nvtx_domain(), &attributes);
}

inline void close_range() { nvtxDomainRangePop(nvtx_domain()); }

#else

inline void open_range(const char*, int64_t = -1) {}
inline void close_range() {}

#endif

}  // namespace hanse
