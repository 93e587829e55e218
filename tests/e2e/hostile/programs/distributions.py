# SPDX-License-Identifier: MIT
"""The distributions of torch.distributions (but VonMises, whose sampler waits for computed values) with checks on: made, sampled, asked for likelihood and entropy."""

import torch
import torch.distributions as D

d = "cuda"


def r(*sizes):
    return torch.rand(*sizes, device=d) + 0.1


def p4():
    return torch.softmax(torch.randn(3, 4, device=d), -1)


CASES = {
    "Normal": lambda: D.Normal(torch.zeros(3,device=d), r(3)),
    "NormalComputed": lambda: D.Normal(r(3)*2, torch.exp(r(3))),
    "CategoricalL": lambda: D.Categorical(logits=torch.randn(3,4,device=d)),
    "CategoricalP": lambda: D.Categorical(probs=p4()),
    "Bernoulli": lambda: D.Bernoulli(probs=torch.sigmoid(r(3))),
    "Beta": lambda: D.Beta(r(3), r(3)),
    "Binomial": lambda: D.Binomial(10, probs=torch.sigmoid(r(3))),
    "Cauchy": lambda: D.Cauchy(r(3),r(3)),
    "Chi2": lambda: D.Chi2(r(3)),
    "CB": lambda: D.ContinuousBernoulli(probs=torch.sigmoid(r(3))),
    "Dirichlet": lambda: D.Dirichlet(r(3,4)),
    "Exponential": lambda: D.Exponential(r(3)),
    "FisherSnedecor": lambda: D.FisherSnedecor(r(3),r(3)),
    "Gamma": lambda: D.Gamma(r(3),r(3)),
    "GeneralizedPareto": lambda: D.GeneralizedPareto(r(3),r(3),r(3)),
    "Geometric": lambda: D.Geometric(probs=torch.sigmoid(r(3))),
    "Gumbel": lambda: D.Gumbel(r(3),r(3)),
    "HalfCauchy": lambda: D.HalfCauchy(r(3)),
    "HalfNormal": lambda: D.HalfNormal(r(3)),
    "Independent": lambda: D.Independent(D.Normal(r(3),r(3)),1),
    "InverseGamma": lambda: D.InverseGamma(r(3),r(3)),
    "Kumaraswamy": lambda: D.Kumaraswamy(r(3),r(3)),
    "LKJ": lambda: D.LKJCholesky(3, r(1)),
    "Laplace": lambda: D.Laplace(r(3),r(3)),
    "LogNormal": lambda: D.LogNormal(r(3),r(3)),
    "LogisticNormal": lambda: D.LogisticNormal(r(3),r(3)),
    "LowRank": lambda: D.LowRankMultivariateNormal(r(3), r(3,2), r(3)),
    "MixtureSameFamily": lambda: D.MixtureSameFamily(D.Categorical(probs=torch.softmax(r(4),-1)), D.Normal(r(4),r(4))),
    "Multinomial": lambda: D.Multinomial(5, probs=p4()),
    "MVNcov": lambda: D.MultivariateNormal(torch.zeros(3,device=d), torch.eye(3,device=d)),
    "MVNtril": lambda: D.MultivariateNormal(torch.zeros(3,device=d), scale_tril=torch.eye(3,device=d)),
    "NegativeBinomial": lambda: D.NegativeBinomial(5, probs=torch.sigmoid(r(3))*0.9),
    "OneHot": lambda: D.OneHotCategorical(probs=p4()),
    "Pareto": lambda: D.Pareto(r(3),r(3)),
    "Poisson": lambda: D.Poisson(r(3)),
    "RelaxedBernoulli": lambda: D.RelaxedBernoulli(r(1), probs=torch.sigmoid(r(3))),
    "RelaxedOneHot": lambda: D.RelaxedOneHotCategorical(r(1), probs=p4()),
    "StudentT": lambda: D.StudentT(r(3)+2, r(3), r(3)),
    "Transformed": lambda: D.TransformedDistribution(D.Normal(r(3),r(3)), [D.transforms.ExpTransform()]),
    "Uniform": lambda: D.Uniform(torch.zeros(3,device=d), r(3)),
    "Weibull": lambda: D.Weibull(r(3),r(3)),
    "Wishart": lambda: D.Wishart(torch.tensor([4.0], device=d), torch.eye(3, device=d)),
}
for name, make in CASES.items():
    distribution = make()
    distribution.log_prob(distribution.sample())
    try:
        distribution.entropy()
    except NotImplementedError:
        pass
torch._assert_async((r(3) > 0).all())
try:
    D.Bernoulli(torch.tensor([0.5], device=d)).log_prob(torch.tensor([2], device=d))
    print("not checked")
except ValueError:
    print(len(CASES), "distributions; a value that is known to be wrong is refused")
