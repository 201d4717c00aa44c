// Functions that kernels on devices call as well as the host: one definition, so the same bits. The
// build gives the mark its meaning where it compiles kernels; elsewhere it is empty. Neither side
// may contract a product and a sum into one operation.
#pragma once

#ifndef HANSE_BOTH_SIDES
#define HANSE_BOTH_SIDES
#endif
