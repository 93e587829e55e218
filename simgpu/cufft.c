/* SPDX-License-Identifier: MIT */
/*
 * cuFFT: plans that know their work area's size. Transforms compute nothing.
 *
 * Model: the work area is one complex copy of the transformed volume. With automatic allocation, which is the
 * default, cuFFT takes that area from the driver when the plan is made, so it is charged to the device here
 * too.
 */
#include "simgpu/answers.h"
#include "simgpu/library.h"
#include "simgpu/taken.h"

#include <pthread.h>
#include <stdio.h>
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
	uint64_t work_area; /* sim_take(), when the plan allocates */
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct plan **plans; /* by handle; handle 0 stays free, programs use it as "none" */
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
	sim_give(plan->work_area);
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

/* What describes a plan, as cufftXtMakePlanMany takes it. A layout that is NULL means dense data. */
struct shape {
	int rank;
	const long long *n, *inembed, *onembed;
	long long istride, idist, ostride, odist, batch;
	cudaDataType in, out, execution;
};

static struct shape dense_shape(int rank, const long long *n, long long batch, cufftType type)
{
	bool is_double = type_is_double(type);
	cudaDataType real = is_double ? CUDA_R_64F : CUDA_R_32F,
		     complex = is_double ? CUDA_C_64F : CUDA_C_32F;

	return (struct shape){
		.rank = rank,
		.n = n,
		.istride = 1,
		.idist = 1,
		.ostride = 1,
		.odist = 1,
		.batch = batch,
		.in = type == CUFFT_R2C || type == CUFFT_D2Z ? real : complex,
		.out = type == CUFFT_C2R || type == CUFFT_Z2D ? real : complex,
		.execution = complex,
	};
}

/* "3,4,5", or "-" for none. */
static size_t print_list(char *out, size_t size, int nr, const long long *values)
{
	size_t n = 0;

	if (!values)
		return (size_t)snprintf(out, size, " -");
	for (int i = 0; i < nr; i++)
		n += (size_t)snprintf(out + n, size - n, "%c%lld", i ? ',' : ' ', values[i]);
	return n;
}

/* The work area of a plan: what a calibration says, else the model. */
static size_t plan_work_bytes(const struct shape *s)
{
	size_t otherwise =
		work_bytes(s->rank, s->n, s->batch, s->execution == CUDA_C_64F || s->execution == CUDA_R_64F);
	char question[512];
	size_t n;

	if (!sim_answers_wanted())
		return otherwise;
	n = (size_t)snprintf(question, sizeof(question), "cufft %d", s->rank);
	n += print_list(question + n, sizeof(question) - n, s->rank, s->n);
	n += print_list(question + n, sizeof(question) - n, s->rank, s->inembed);
	n += (size_t)snprintf(question + n, sizeof(question) - n, " %lld %lld %d", s->istride, s->idist,
			      s->in);
	n += print_list(question + n, sizeof(question) - n, s->rank, s->onembed);
	snprintf(question + n, sizeof(question) - n, " %lld %lld %d %lld %d", s->ostride, s->odist, s->out,
		 s->batch, s->execution);
	return sim_answer(question, otherwise);
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

static cufftResult plan_make(cufftHandle handle, const struct shape *shape, size_t *workSize)
{
	struct plan *plan = plan_find(handle);

	if (!plan)
		return CUFFT_INVALID_PLAN;
	if (plan->is_made)
		return CUFFT_INVALID_PLAN;
	if (shape->rank < 1 || shape->rank > 3)
		return CUFFT_INVALID_SIZE;
	plan->work_bytes = plan_work_bytes(shape);
	if (plan->allocates) {
		plan->work_area = sim_take(sim_device(), "cufft", plan->work_bytes);
		if (!plan->work_area)
			return CUFFT_ALLOC_FAILED;
	}
	plan->is_made = true;
	if (workSize)
		*workSize = plan->work_bytes;
	return CUFFT_SUCCESS;
}

/* The layouts of cufftMakePlanMany go by int; a rank over 3 is refused before they are looked at. */
static cufftResult make_many(cufftHandle plan, int rank, const int *n, const int *inembed, int istride,
			     int idist, const int *onembed, int ostride, int odist, cufftType type, int batch,
			     size_t *workSize)
{
	long long wide_n[3], wide_in[3], wide_out[3];
	struct shape shape;

	if (!widen(rank, n, wide_n))
		return CUFFT_INVALID_SIZE;
	shape = dense_shape(rank, wide_n, batch, type);
	if (widen(rank, inembed, wide_in) && widen(rank, onembed, wide_out)) {
		shape.inembed = wide_in;
		shape.onembed = wide_out;
		shape.istride = istride;
		shape.idist = idist;
		shape.ostride = ostride;
		shape.odist = odist;
	}
	return plan_make(plan, &shape, workSize);
}

cufftResult cufftMakePlanMany(cufftHandle plan, int rank, int *n, int *inembed, int istride, int idist,
			      int *onembed, int ostride, int odist, cufftType type, int batch,
			      size_t *workSize)
{
	return make_many(plan, rank, n, inembed, istride, idist, onembed, ostride, odist, type, batch,
			 workSize);
}

cufftResult cufftMakePlanMany64(cufftHandle plan, int rank, long long int *n, long long int *inembed,
				long long int istride, long long int idist, long long int *onembed,
				long long int ostride, long long int odist, cufftType type,
				long long int batch, size_t *workSize)
{
	struct shape shape = dense_shape(rank, n, batch, type);

	if (inembed && onembed) {
		shape.inembed = inembed;
		shape.onembed = onembed;
		shape.istride = istride;
		shape.idist = idist;
		shape.ostride = ostride;
		shape.odist = odist;
	}
	return plan_make(plan, &shape, workSize);
}

cufftResult cufftXtMakePlanMany(cufftHandle plan, int rank, long long int *n, long long int *inembed,
				long long int istride, long long int idist, cudaDataType inputtype,
				long long int *onembed, long long int ostride, long long int odist,
				cudaDataType outputtype, long long int batch, size_t *workSize,
				cudaDataType executiontype)
{
	const struct shape shape = { rank,    n,     inembed, onembed,   istride,    idist,
				     ostride, odist, batch,   inputtype, outputtype, executiontype };

	return plan_make(plan, &shape, workSize);
}

cufftResult cufftMakePlan1d(cufftHandle plan, int nx, cufftType type, int batch, size_t *workSize)
{
	struct shape shape = dense_shape(1, (const long long[]){ nx }, batch, type);

	return plan_make(plan, &shape, workSize);
}

cufftResult cufftMakePlan2d(cufftHandle plan, int nx, int ny, cufftType type, size_t *workSize)
{
	struct shape shape = dense_shape(2, (const long long[]){ nx, ny }, 1, type);

	return plan_make(plan, &shape, workSize);
}

cufftResult cufftMakePlan3d(cufftHandle plan, int nx, int ny, int nz, cufftType type, size_t *workSize)
{
	struct shape shape = dense_shape(3, (const long long[]){ nx, ny, nz }, 1, type);

	return plan_make(plan, &shape, workSize);
}

/* cufftPlan*: create and make in one call; a plan that cannot be made is not left behind. */
#define CREATE_AND(make)                                                                                     \
	do {                                                                                                 \
		cufftResult result = cufftCreate(plan);                                                      \
                                                                                                             \
		if (result != CUFFT_SUCCESS)                                                                 \
			return result;                                                                       \
		result = (make);                                                                             \
		if (result != CUFFT_SUCCESS)                                                                 \
			cufftDestroy(*plan);                                                                 \
		return result;                                                                               \
	} while (0)

cufftResult cufftPlan1d(cufftHandle *plan, int nx, cufftType type, int batch)
{
	CREATE_AND(cufftMakePlan1d(*plan, nx, type, batch, NULL));
}

cufftResult cufftPlan2d(cufftHandle *plan, int nx, int ny, cufftType type)
{
	CREATE_AND(cufftMakePlan2d(*plan, nx, ny, type, NULL));
}

cufftResult cufftPlan3d(cufftHandle *plan, int nx, int ny, int nz, cufftType type)
{
	CREATE_AND(cufftMakePlan3d(*plan, nx, ny, nz, type, NULL));
}

cufftResult cufftPlanMany(cufftHandle *plan, int rank, int *n, int *inembed, int istride, int idist,
			  int *onembed, int ostride, int odist, cufftType type, int batch)
{
	CREATE_AND(make_many(*plan, rank, n, inembed, istride, idist, onembed, ostride, odist, type, batch,
			     NULL));
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

#define EXEC(Kind, in_t, out_t)                                                                              \
	cufftResult cufftExec##Kind(cufftHandle plan, in_t *idata, out_t *odata)                             \
	{                                                                                                    \
		(void)idata, (void)odata;                                                                    \
		return execute(plan);                                                                        \
	}
#define EXEC_DIRECTED(Kind, type)                                                                            \
	cufftResult cufftExec##Kind(cufftHandle plan, type *idata, type *odata, int direction)               \
	{                                                                                                    \
		(void)idata, (void)odata, (void)direction;                                                   \
		return execute(plan);                                                                        \
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
