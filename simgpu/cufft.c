/* SPDX-License-Identifier: MIT */
/*
 * cuFFT: plans that know their work area's size. Transforms compute nothing.
 *
 * Model: the work area is one complex copy of the transformed volume. With automatic allocation, which is the
 * default, cuFFT takes that area from the driver when the plan is made, so it is charged to the device here
 * too.
 */
#include "simgpu/driver_table.h"
#include "simgpu/library.h"

#include <pthread.h>
#include <stdlib.h>

#pragma GCC visibility push(default)
#include <cufft.h>
#include <cufftXt.h>
#pragma GCC visibility pop

struct plan {
	struct sim_library lib;
	bool is_used;
	bool is_made;
	bool allocates;
	size_t work_bytes;
	CUdeviceptr work_area;		/* ours, when the plan allocates */
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct plan **plans;		/* by handle; handle 0 stays free, programs use it as "none" */
static int nr_plans;

static struct plan *plan_find(cufftHandle handle)
{
	struct plan *plan = NULL;

	pthread_mutex_lock(&mutex);
	if (handle > 0 && handle < nr_plans && plans[handle]->is_used)
		plan = plans[handle];
	pthread_mutex_unlock(&mutex);
	return plan;
}

cufftResult cufftCreate(cufftHandle *handle)
{
	int i;

	if (!handle)
		return CUFFT_INVALID_VALUE;
	pthread_mutex_lock(&mutex);
	for (i = 1; i < nr_plans && plans[i]->is_used; i++)
		;
	if (i >= nr_plans) {
		plans = sim_realloc(plans, sizeof(*plans) * (size_t)(i + 1));
		while (nr_plans <= i)
			plans[nr_plans++] = sim_library_new(sizeof(struct plan));
	}
	*plans[i] = (struct plan){ .is_used = true, .allocates = true };
	pthread_mutex_unlock(&mutex);
	*handle = i;
	return CUFFT_SUCCESS;
}

static void plan_free_area(struct plan *plan)
{
	if (plan->work_area)
		sim_driver()->cuMemFree_v2(plan->work_area);
	plan->work_area = 0;
}

cufftResult cufftDestroy(cufftHandle handle)
{
	struct plan *plan = plan_find(handle);

	if (!plan)
		return CUFFT_INVALID_PLAN;
	plan_free_area(plan);
	pthread_mutex_lock(&mutex);
	plan->is_used = false;
	pthread_mutex_unlock(&mutex);
	return CUFFT_SUCCESS;
}

/* The model: BATCH volumes of RANK dimensions N, in complex elements of the transform's precision. */
static size_t work_bytes(int rank, const long long *n, long long batch, bool is_double)
{
	size_t elements = (size_t)batch;

	for (int i = 0; i < rank; i++)
		elements *= (size_t)n[i];
	return elements * (is_double ? 16 : 8);
}

static bool type_is_double(cufftType type)
{
	return type == CUFFT_Z2Z || type == CUFFT_D2Z || type == CUFFT_Z2D;
}

/* N as long long: the many entry points of cuFFT differ in that. A rank over 3 is not cuFFT's. */
static bool widen(int rank, const int *n, long long *wide)
{
	if (rank < 1 || rank > 3 || !n)
		return false;
	for (int i = 0; i < rank; i++)
		wide[i] = n[i];
	return true;
}

static cufftResult plan_make(cufftHandle handle, int rank, const long long *n, long long batch,
			     bool is_double, size_t *workSize)
{
	struct plan *plan = plan_find(handle);

	if (!plan)
		return CUFFT_INVALID_PLAN;
	if (plan->is_made)
		return CUFFT_INVALID_PLAN;
	if (rank < 1 || rank > 3)
		return CUFFT_INVALID_SIZE;
	plan->work_bytes = work_bytes(rank, n, batch, is_double);
	if (plan->allocates && plan->work_bytes &&
	    sim_driver()->cuMemAlloc_v2(&plan->work_area, plan->work_bytes) != CUDA_SUCCESS) {
		plan->work_area = 0;
		return CUFFT_ALLOC_FAILED;
	}
	plan->is_made = true;
	if (workSize)
		*workSize = plan->work_bytes;
	return CUFFT_SUCCESS;
}

cufftResult cufftMakePlanMany(cufftHandle plan, int rank, int *n, int *inembed, int istride, int idist,
			      int *onembed, int ostride, int odist, cufftType type, int batch,
			      size_t *workSize)
{
	long long wide[3];

	(void)inembed, (void)istride, (void)idist, (void)onembed, (void)ostride, (void)odist;
	if (!widen(rank, n, wide))
		return CUFFT_INVALID_SIZE;
	return plan_make(plan, rank, wide, batch, type_is_double(type), workSize);
}

cufftResult cufftMakePlanMany64(cufftHandle plan, int rank, long long int *n, long long int *inembed,
				long long int istride, long long int idist, long long int *onembed,
				long long int ostride, long long int odist, cufftType type,
				long long int batch, size_t *workSize)
{
	(void)inembed, (void)istride, (void)idist, (void)onembed, (void)ostride, (void)odist;
	return plan_make(plan, rank, n, batch, type_is_double(type), workSize);
}

cufftResult cufftXtMakePlanMany(cufftHandle plan, int rank, long long int *n, long long int *inembed,
				long long int istride, long long int idist, cudaDataType inputtype,
				long long int *onembed, long long int ostride, long long int odist,
				cudaDataType outputtype, long long int batch, size_t *workSize,
				cudaDataType executiontype)
{
	(void)inembed, (void)istride, (void)idist, (void)inputtype;
	(void)onembed, (void)ostride, (void)odist, (void)outputtype;
	return plan_make(plan, rank, n, batch, executiontype == CUDA_C_64F, workSize);
}

cufftResult cufftMakePlan1d(cufftHandle plan, int nx, cufftType type, int batch, size_t *workSize)
{
	return plan_make(plan, 1, (const long long[]){ nx }, batch, type_is_double(type), workSize);
}

cufftResult cufftMakePlan2d(cufftHandle plan, int nx, int ny, cufftType type, size_t *workSize)
{
	return plan_make(plan, 2, (const long long[]){ nx, ny }, 1, type_is_double(type), workSize);
}

cufftResult cufftMakePlan3d(cufftHandle plan, int nx, int ny, int nz, cufftType type, size_t *workSize)
{
	return plan_make(plan, 3, (const long long[]){ nx, ny, nz }, 1, type_is_double(type), workSize);
}

/* cufftPlan*: create and make in one call; a plan that cannot be made is not left behind. */
static cufftResult plan_new(cufftHandle *handle, int rank, const long long *n, long long batch,
			    cufftType type)
{
	cufftResult result = cufftCreate(handle);

	if (result != CUFFT_SUCCESS)
		return result;
	result = plan_make(*handle, rank, n, batch, type_is_double(type), NULL);
	if (result != CUFFT_SUCCESS)
		cufftDestroy(*handle);
	return result;
}

cufftResult cufftPlan1d(cufftHandle *plan, int nx, cufftType type, int batch)
{
	return plan_new(plan, 1, (const long long[]){ nx }, batch, type);
}

cufftResult cufftPlan2d(cufftHandle *plan, int nx, int ny, cufftType type)
{
	return plan_new(plan, 2, (const long long[]){ nx, ny }, 1, type);
}

cufftResult cufftPlan3d(cufftHandle *plan, int nx, int ny, int nz, cufftType type)
{
	return plan_new(plan, 3, (const long long[]){ nx, ny, nz }, 1, type);
}

cufftResult cufftPlanMany(cufftHandle *plan, int rank, int *n, int *inembed, int istride, int idist,
			  int *onembed, int ostride, int odist, cufftType type, int batch)
{
	long long wide[3];

	(void)inembed, (void)istride, (void)idist, (void)onembed, (void)ostride, (void)odist;
	if (!widen(rank, n, wide))
		return CUFFT_INVALID_SIZE;
	return plan_new(plan, rank, wide, batch, type);
}

cufftResult cufftEstimateMany(int rank, int *n, int *inembed, int istride, int idist, int *onembed,
			      int ostride, int odist, cufftType type, int batch, size_t *workSize)
{
	long long wide[3];

	(void)inembed, (void)istride, (void)idist, (void)onembed, (void)ostride, (void)odist;
	if (!widen(rank, n, wide))
		return CUFFT_INVALID_SIZE;
	*workSize = work_bytes(rank, wide, batch, type_is_double(type));
	return CUFFT_SUCCESS;
}

cufftResult cufftEstimate1d(int nx, cufftType type, int batch, size_t *workSize)
{
	*workSize = work_bytes(1, (const long long[]){ nx }, batch, type_is_double(type));
	return CUFFT_SUCCESS;
}

cufftResult cufftEstimate2d(int nx, int ny, cufftType type, size_t *workSize)
{
	*workSize = work_bytes(2, (const long long[]){ nx, ny }, 1, type_is_double(type));
	return CUFFT_SUCCESS;
}

cufftResult cufftEstimate3d(int nx, int ny, int nz, cufftType type, size_t *workSize)
{
	*workSize = work_bytes(3, (const long long[]){ nx, ny, nz }, 1, type_is_double(type));
	return CUFFT_SUCCESS;
}

cufftResult cufftGetSize(cufftHandle handle, size_t *workSize)
{
	struct plan *plan = plan_find(handle);

	if (!plan)
		return CUFFT_INVALID_PLAN;
	*workSize = plan->work_bytes;
	return CUFFT_SUCCESS;
}

cufftResult cufftSetAutoAllocation(cufftHandle handle, int autoAllocate)
{
	struct plan *plan = plan_find(handle);

	if (!plan)
		return CUFFT_INVALID_PLAN;
	plan->allocates = autoAllocate;
	return CUFFT_SUCCESS;
}

cufftResult cufftSetWorkArea(cufftHandle handle, void *workArea)
{
	struct plan *plan = plan_find(handle);

	(void)workArea;
	if (!plan)
		return CUFFT_INVALID_PLAN;
	plan_free_area(plan);
	return CUFFT_SUCCESS;
}

cufftResult cufftSetStream(cufftHandle handle, cudaStream_t stream)
{
	struct plan *plan = plan_find(handle);

	if (!plan)
		return CUFFT_INVALID_PLAN;
	plan->lib.stream = stream;
	return CUFFT_SUCCESS;
}

static cufftResult execute(cufftHandle handle)
{
	struct plan *plan = plan_find(handle);

	if (!plan || !plan->is_made)
		return CUFFT_INVALID_PLAN;
	sim_library_launch(plan);
	return CUFFT_SUCCESS;
}

#define EXEC(Kind, in_t, out_t)                                                  \
	cufftResult cufftExec##Kind(cufftHandle plan, in_t *idata, out_t *odata) \
	{                                                                        \
		(void)idata, (void)odata;                                        \
		return execute(plan);                                            \
	}
#define EXEC_DIRECTED(Kind, type)                                                              \
	cufftResult cufftExec##Kind(cufftHandle plan, type *idata, type *odata, int direction) \
	{                                                                                      \
		(void)idata, (void)odata, (void)direction;                                     \
		return execute(plan);                                                          \
	}

EXEC_DIRECTED(C2C, cufftComplex)
EXEC_DIRECTED(Z2Z, cufftDoubleComplex)
EXEC(R2C, cufftReal, cufftComplex)
EXEC(C2R, cufftComplex, cufftReal)
EXEC(D2Z, cufftDoubleReal, cufftDoubleComplex)
EXEC(Z2D, cufftDoubleComplex, cufftDoubleReal)

cufftResult cufftXtExec(cufftHandle plan, void *input, void *output, int direction)
{
	(void)input, (void)output, (void)direction;
	return execute(plan);
}

cufftResult cufftGetVersion(int *version)
{
	*version = CUFFT_VERSION;
	return CUFFT_SUCCESS;
}

cufftResult cufftGetProperty(libraryPropertyType type, int *value)
{
	sim_library_property(type, CUFFT_VERSION, 1000, 100, value);
	return CUFFT_SUCCESS;
}
