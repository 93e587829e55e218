/* SPDX-License-Identifier: MIT */
/*
 * Copies and memset. Copies of clean memory write zeros without touching the source. Copies to and within
 * the device above CARRY_LIMIT move nothing: lengths, indices, masks and seeds are small, weights are not,
 * and every byte carried would cost a byte of host memory: their destination reads 0. Copies to the host
 * are always real. A small one of something that a kernel would have computed is told to the listener:
 * whatever the program decides by it, it may decide differently on a GPU.
 */
#include <string.h>

#include "simgpu/internal.h"

#define CARRY_LIMIT SIM_MIB(1)
#define DECISION_BYTES 64	/* larger copies are data: results, weights on their way to a file */

/* Rows of WIDTH bytes, the next one a pitch further. */
struct rows {
	void *p;
	size_t pitch;
};

static char *row(const struct rows *rows, size_t i)
{
	return (char *)rows->p + i * rows->pitch;
}

/* One row, of a transfer of TOTAL bytes in all. */
static void copy_row(char *dst, bool to_device, const char *src, bool from_device, size_t width, size_t total)
{
	if (from_device && sim_before_read)
		sim_before_read(src, width);
	if (from_device && !sim_is_dirty(src, width)) {
		if (to_device)
			sim_fresh(dst, width);
		else
			memset(dst, 0, width);
	} else if (to_device && total > CARRY_LIMIT) {
		sim_fresh(dst, width);
		return;
	} else {
		if (to_device && sim_before_overwrite)
			sim_before_overwrite(dst, width);
		memmove(dst, src, width);
		if (to_device)
			sim_dirty(dst, width);
	}
	if (to_device && from_device)
		sim_known_copy(dst, src, width);
}

/* The host reads BYTES of DEV at SRC into DST. Returns true when what belongs there was written instead. */
static bool read_value(int dev, void *dst, const void *src, size_t bytes)
{
	bool is_known, is_answered;

	if (bytes > DECISION_BYTES)
		return false;
	if (sim_before_read)
		sim_before_read(src, bytes);
	is_known = sim_is_known(src, bytes);
	is_answered = !is_known && sim_values_answer(dst, bytes, &is_known);
	if (!is_known)
		sim_tell_value_read(dev, src, bytes);
	return is_answered;
}

static CUresult copy(struct rows dst, struct rows src, size_t width, size_t height)
{
	bool to_device, from_device;
	int dev;

	if (!sim_initialised())
		return CUDA_ERROR_NOT_INITIALIZED;
	if (!width || !height)
		return CUDA_SUCCESS;
	if (!dst.p || !src.p)
		return CUDA_ERROR_INVALID_VALUE;
	if (dst.p == src.p)
		return CUDA_SUCCESS;
	dev = sim_pointer_device(src.p);
	to_device = sim_pointer_device(dst.p) >= 0;
	from_device = dev >= 0;
	if (from_device && !to_device && height == 1 && read_value(dev, dst.p, src.p, width))
		return CUDA_SUCCESS;
	for (size_t i = 0; i < height; i++)
		copy_row(row(&dst, i), to_device, row(&src, i), from_device, width, width * height);
	return CUDA_SUCCESS;
}

static CUresult copy_linear(void *dst, const void *src, size_t bytes)
{
	return copy((struct rows){ dst, 0 }, (struct rows){ (void *)(uintptr_t)src, 0 }, bytes, 1);
}

/* As a node while STREAM is capturing. */
static CUresult copy_async(void *dst, const void *src, size_t bytes, CUstream stream)
{
	CUgraphNodeParams node = { .type = CU_GRAPH_NODE_TYPE_MEMCPY };
	CUDA_MEMCPY3D *c = &node.memcpy.copyParams;

	if (sim_capture_entangles(stream))
		return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
	if (!sim_capturing(stream))
		return copy_linear(dst, src, bytes);
	c->srcMemoryType = c->dstMemoryType = CU_MEMORYTYPE_UNIFIED;
	c->srcDevice = (CUdeviceptr)src;
	c->dstDevice = (CUdeviceptr)dst;
	c->srcPitch = c->dstPitch = c->WidthInBytes = bytes;
	c->Height = c->Depth = 1;
	sim_capture_node(stream, &node);
	return CUDA_SUCCESS;
}

/* A synchronous copy waits for the device, as the caller may count on. */
static CUresult copy_sync(void *dst, const void *src, size_t bytes)
{
	if (sim_capture_entangles(NULL))
		return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
	sim_synchronise();
	return copy_linear(dst, src, bytes);
}

CUresult cuMemcpy(CUdeviceptr dst, CUdeviceptr src, size_t bytes)
{
	return copy_sync((void *)dst, (void *)src, bytes);
}

CUresult cuMemcpyAsync(CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUstream stream)
{
	return copy_async((void *)dst, (void *)src, bytes, stream);
}

CUresult cuMemcpyHtoD_v2(CUdeviceptr dst, const void *src, size_t bytes)
{
	return copy_sync((void *)dst, src, bytes);
}

CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr dst, const void *src, size_t bytes, CUstream stream)
{
	return copy_async((void *)dst, src, bytes, stream);
}

CUresult cuMemcpyDtoH_v2(void *dst, CUdeviceptr src, size_t bytes)
{
	return copy_sync(dst, (void *)src, bytes);
}

CUresult cuMemcpyDtoHAsync_v2(void *dst, CUdeviceptr src, size_t bytes, CUstream stream)
{
	return copy_async(dst, (void *)src, bytes, stream);
}

CUresult cuMemcpyDtoD_v2(CUdeviceptr dst, CUdeviceptr src, size_t bytes)
{
	return copy_sync((void *)dst, (void *)src, bytes);
}

CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUstream stream)
{
	return copy_async((void *)dst, (void *)src, bytes, stream);
}

CUresult cuMemcpyPeer(CUdeviceptr dst, CUcontext dst_ctx, CUdeviceptr src, CUcontext src_ctx, size_t bytes)
{
	(void)dst_ctx;
	(void)src_ctx;
	return copy_sync((void *)dst, (void *)src, bytes);
}

CUresult cuMemcpyPeerAsync(CUdeviceptr dst, CUcontext dst_ctx, CUdeviceptr src, CUcontext src_ctx,
			   size_t bytes, CUstream stream)
{
	(void)dst_ctx;
	(void)src_ctx;
	return copy_async((void *)dst, (void *)src, bytes, stream);
}

/* ---- rows and planes ------------------------------------------------------------------------- */

/* One side of a copy: where it begins, and how far apart its rows and planes are. */
struct side {
	struct rows first;
	size_t plane;
};

/* Whether NR from number AT on are among COUNT. */
static bool is_within(size_t at, size_t nr, size_t count)
{
	return at <= count && nr <= count - at;
}

static CUresult side_of(const CUDA_MEMCPY3D *c, CUmemorytype type, const void *host, CUdeviceptr device, CUarray array, size_t x, size_t y,
			size_t z, size_t pitch, size_t height, struct side *out)
{
	char *p = (char *)(type == CU_MEMORYTYPE_HOST ? (uintptr_t)host : (uintptr_t)device);
	size_t bytes;
	CUresult ret = CUDA_SUCCESS;

	if (type == CU_MEMORYTYPE_ARRAY)
		ret = sim_array_layout(array, &p, &pitch, &height, &bytes);
	if (type == CU_MEMORYTYPE_ARRAY && !ret &&
	    (!is_within(x, c->WidthInBytes, pitch) || !is_within(y, c->Height, height) ||
	     !is_within(z, c->Depth, bytes / (pitch * height))))
		ret = CUDA_ERROR_INVALID_VALUE;
	out->first = (struct rows){ p ? p + z * height * pitch + y * pitch + x : NULL, pitch };
	out->plane = height * pitch;
	return ret;
}

CUresult sim_copy_3d(const CUDA_MEMCPY3D *c)
{
	struct side dst, src;
	CUresult ret = c ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;

	if (!ret)
		ret = side_of(c, c->srcMemoryType, c->srcHost, c->srcDevice, c->srcArray, c->srcXInBytes, c->srcY,
			      c->srcZ, c->srcPitch, c->srcHeight, &src);
	if (!ret)
		ret = side_of(c, c->dstMemoryType, c->dstHost, c->dstDevice, c->dstArray, c->dstXInBytes, c->dstY,
			      c->dstZ, c->dstPitch, c->dstHeight, &dst);
	for (size_t z = 0; !ret && z < c->Depth; z++) {
		ret = copy(dst.first, src.first, c->WidthInBytes, c->Height);
		dst.first.p = (char *)dst.first.p + dst.plane;
		src.first.p = (char *)src.first.p + src.plane;
	}
	return ret;
}

static CUDA_MEMCPY3D of_2d(const CUDA_MEMCPY2D *c)
{
	return (CUDA_MEMCPY3D){
		.srcXInBytes = c->srcXInBytes,
		.srcY = c->srcY,
		.srcMemoryType = c->srcMemoryType,
		.srcHost = c->srcHost,
		.srcDevice = c->srcDevice,
		.srcArray = c->srcArray,
		.srcPitch = c->srcPitch,
		.dstXInBytes = c->dstXInBytes,
		.dstY = c->dstY,
		.dstMemoryType = c->dstMemoryType,
		.dstHost = c->dstHost,
		.dstDevice = c->dstDevice,
		.dstArray = c->dstArray,
		.dstPitch = c->dstPitch,
		.WidthInBytes = c->WidthInBytes,
		.Height = c->Height,
		.Depth = 1,
	};
}

CUresult cuMemcpy2D_v2(const CUDA_MEMCPY2D *c)
{
	const CUDA_MEMCPY3D whole = c ? of_2d(c) : (CUDA_MEMCPY3D){ 0 };

	return cuMemcpy3D_v2(c ? &whole : NULL);
}

CUresult cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D *c)
{
	return cuMemcpy2D_v2(c);
}

CUresult cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D *c, CUstream stream)
{
	const CUDA_MEMCPY3D whole = c ? of_2d(c) : (CUDA_MEMCPY3D){ 0 };

	return cuMemcpy3DAsync_v2(c ? &whole : NULL, stream);
}

CUresult cuMemcpy3D_v2(const CUDA_MEMCPY3D *c)
{
	if (sim_capture_entangles(NULL))
		return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
	sim_synchronise();
	return sim_copy_3d(c);
}

CUresult cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D *c, CUstream stream)
{
	CUgraphNodeParams node = { .type = CU_GRAPH_NODE_TYPE_MEMCPY };

	if (sim_capture_entangles(stream))
		return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
	if (!c || !sim_capturing(stream))
		return sim_copy_3d(c);
	node.memcpy.copyParams = *c;
	sim_capture_node(stream, &node);
	return CUDA_SUCCESS;
}

/* Addresses say which device they belong to, so the contexts are not needed. */
static CUDA_MEMCPY3D of_peer(const CUDA_MEMCPY3D_PEER *c)
{
	return (CUDA_MEMCPY3D){
		.srcXInBytes = c->srcXInBytes,
		.srcY = c->srcY,
		.srcZ = c->srcZ,
		.srcLOD = c->srcLOD,
		.srcMemoryType = c->srcMemoryType,
		.srcHost = c->srcHost,
		.srcDevice = c->srcDevice,
		.srcArray = c->srcArray,
		.srcPitch = c->srcPitch,
		.srcHeight = c->srcHeight,
		.dstXInBytes = c->dstXInBytes,
		.dstY = c->dstY,
		.dstZ = c->dstZ,
		.dstLOD = c->dstLOD,
		.dstMemoryType = c->dstMemoryType,
		.dstHost = c->dstHost,
		.dstDevice = c->dstDevice,
		.dstArray = c->dstArray,
		.dstPitch = c->dstPitch,
		.dstHeight = c->dstHeight,
		.WidthInBytes = c->WidthInBytes,
		.Height = c->Height,
		.Depth = c->Depth,
	};
}

CUresult cuMemcpy3DPeer(const CUDA_MEMCPY3D_PEER *c)
{
	const CUDA_MEMCPY3D whole = c ? of_peer(c) : (CUDA_MEMCPY3D){ 0 };

	return cuMemcpy3D_v2(c ? &whole : NULL);
}

CUresult cuMemcpy3DPeerAsync(const CUDA_MEMCPY3D_PEER *c, CUstream stream)
{
	const CUDA_MEMCPY3D whole = c ? of_peer(c) : (CUDA_MEMCPY3D){ 0 };

	return cuMemcpy3DAsync_v2(c ? &whole : NULL, stream);
}

/* ---- arrays of one dimension ----------------------------------------------------------------- */

/* Where BYTES of ARRAY begin, OFFSET bytes from its start. */
static CUresult place(CUarray array, size_t offset, size_t bytes, void **p)
{
	size_t pitch, height, room;
	char *memory;
	CUresult ret = sim_array_layout(array, &memory, &pitch, &height, &room);

	if (!ret && (offset > room || bytes > room - offset))
		ret = CUDA_ERROR_INVALID_VALUE;
	if (!ret)
		*p = memory + offset;
	return ret;
}

CUresult cuMemcpyHtoA_v2(CUarray dst, size_t offset, const void *src, size_t bytes)
{
	void *p;
	CUresult ret = place(dst, offset, bytes, &p);

	return ret ? ret : copy_sync(p, src, bytes);
}

CUresult cuMemcpyHtoAAsync_v2(CUarray dst, size_t offset, const void *src, size_t bytes, CUstream stream)
{
	void *p;
	CUresult ret = place(dst, offset, bytes, &p);

	return ret ? ret : copy_async(p, src, bytes, stream);
}

CUresult cuMemcpyAtoH_v2(void *dst, CUarray src, size_t offset, size_t bytes)
{
	void *p;
	CUresult ret = place(src, offset, bytes, &p);

	return ret ? ret : copy_sync(dst, p, bytes);
}

CUresult cuMemcpyAtoHAsync_v2(void *dst, CUarray src, size_t offset, size_t bytes, CUstream stream)
{
	void *p;
	CUresult ret = place(src, offset, bytes, &p);

	return ret ? ret : copy_async(dst, p, bytes, stream);
}

CUresult cuMemcpyDtoA_v2(CUarray dst, size_t offset, CUdeviceptr src, size_t bytes)
{
	return cuMemcpyHtoA_v2(dst, offset, (void *)src, bytes);
}

CUresult cuMemcpyAtoD_v2(CUdeviceptr dst, CUarray src, size_t offset, size_t bytes)
{
	return cuMemcpyAtoH_v2((void *)dst, src, offset, bytes);
}

CUresult cuMemcpyAtoA_v2(CUarray dst, size_t dst_offset, CUarray src, size_t src_offset, size_t bytes)
{
	void *p;
	CUresult ret = place(src, src_offset, bytes, &p);

	return ret ? ret : cuMemcpyHtoA_v2(dst, dst_offset, p, bytes);
}

/* ---- memset ---------------------------------------------------------------------------------- */

CUresult sim_set(CUdeviceptr dptr, size_t pitch, unsigned value, size_t unit, size_t count, size_t height)
{
	struct rows dst = { (void *)dptr, pitch };
	size_t width = unit * count;

	if (!sim_initialised())
		return CUDA_ERROR_NOT_INITIALIZED;
	if (!width || !height)
		return CUDA_SUCCESS;
	if (!dptr)
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < height; i++) {
		char *p = row(&dst, i);

		if (sim_pointer_device(p) >= 0 && (!value || width * height > CARRY_LIMIT)) {
			sim_fresh(p, width);
			sim_known(p, width, !value);
			continue;
		}
		if (sim_before_overwrite)
			sim_before_overwrite(p, width);
		for (size_t at = 0; at < width; at += unit)
			memcpy(p + at, &value, unit);
		sim_dirty(p, width);
	}
	return CUDA_SUCCESS;
}

static CUresult set_async(CUdeviceptr dptr, size_t pitch, unsigned value, size_t unit, size_t count,
			  size_t height, CUstream stream)
{
	CUgraphNodeParams node = { .type = CU_GRAPH_NODE_TYPE_MEMSET,
				   .memset = { dptr, pitch, value, (unsigned)unit, count, height, NULL } };

	if (sim_capture_entangles(stream))
		return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
	if (sim_capture_node(stream, &node))
		return CUDA_SUCCESS;
	return sim_set(dptr, pitch, value, unit, count, height);
}

CUresult cuMemsetD8_v2(CUdeviceptr dptr, unsigned char value, size_t n)
{
	return set_async(dptr, 0, value, 1, n, 1, NULL);
}

CUresult cuMemsetD16_v2(CUdeviceptr dptr, unsigned short value, size_t n)
{
	return set_async(dptr, 0, value, 2, n, 1, NULL);
}

CUresult cuMemsetD32_v2(CUdeviceptr dptr, unsigned int value, size_t n)
{
	return set_async(dptr, 0, value, 4, n, 1, NULL);
}

CUresult cuMemsetD8Async(CUdeviceptr dptr, unsigned char value, size_t n, CUstream stream)
{
	return set_async(dptr, 0, value, 1, n, 1, stream);
}

CUresult cuMemsetD16Async(CUdeviceptr dptr, unsigned short value, size_t n, CUstream stream)
{
	return set_async(dptr, 0, value, 2, n, 1, stream);
}

CUresult cuMemsetD32Async(CUdeviceptr dptr, unsigned int value, size_t n, CUstream stream)
{
	return set_async(dptr, 0, value, 4, n, 1, stream);
}

CUresult cuMemsetD2D8_v2(CUdeviceptr dptr, size_t pitch, unsigned char value, size_t width, size_t height)
{
	return set_async(dptr, pitch, value, 1, width, height, NULL);
}

CUresult cuMemsetD2D16_v2(CUdeviceptr dptr, size_t pitch, unsigned short value, size_t width, size_t height)
{
	return set_async(dptr, pitch, value, 2, width, height, NULL);
}

CUresult cuMemsetD2D32_v2(CUdeviceptr dptr, size_t pitch, unsigned int value, size_t width, size_t height)
{
	return set_async(dptr, pitch, value, 4, width, height, NULL);
}

CUresult cuMemsetD2D8Async(CUdeviceptr dptr, size_t pitch, unsigned char value, size_t width, size_t height,
			   CUstream stream)
{
	return set_async(dptr, pitch, value, 1, width, height, stream);
}

CUresult cuMemsetD2D16Async(CUdeviceptr dptr, size_t pitch, unsigned short value, size_t width, size_t height,
			    CUstream stream)
{
	return set_async(dptr, pitch, value, 2, width, height, stream);
}

CUresult cuMemsetD2D32Async(CUdeviceptr dptr, size_t pitch, unsigned int value, size_t width, size_t height,
			    CUstream stream)
{
	return set_async(dptr, pitch, value, 4, width, height, stream);
}
