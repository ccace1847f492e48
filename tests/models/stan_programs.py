"""Programs in Stan for the posteriors of posteriordb, by name."""

_REGRESSION = """
data {{
  int<lower=1> N;
  {columns}
}}
transformed data {{
  vector[N] y = {y};
  matrix[N, {size}] x = {x};
}}
parameters {{
  vector[{size}] beta;
  real<lower=0> sigma;
}}
model {{
  {prior}
  y ~ normal(x * beta, sigma);
}}
"""


def _regression(columns: str, y: str, terms: list[str], prior: str = "") -> str:
    x = "rep_matrix(1, N, 1)"
    for term in terms:
        x = f"append_col({x}, {term})"
    declared = " ".join(f"vector[N] {name};" for name in columns.split())
    return _REGRESSION.format(columns=declared, y=y, x=x, size=1 + len(terms), prior=prior)


_EIGHT_SCHOOLS = """
data {
  int<lower=0> J;
  vector[J] y;
  vector<lower=0>[J] sigma;
}
"""

PROGRAMS = {
    "eight_schools-eight_schools_centered": _EIGHT_SCHOOLS
    + """
parameters {
  real mu;
  real<lower=0> tau;
  vector[J] theta;
}
model {
  mu ~ normal(0, 5);
  tau ~ cauchy(0, 5);
  theta ~ normal(mu, tau);
  y ~ normal(theta, sigma);
}
""",
    "eight_schools-eight_schools_noncentered": _EIGHT_SCHOOLS
    + """
parameters {
  real mu;
  real<lower=0> tau;
  vector[J] z;
}
transformed parameters {
  vector[J] theta = mu + tau * z;
}
model {
  mu ~ normal(0, 5);
  tau ~ cauchy(0, 5);
  z ~ std_normal();
  y ~ normal(theta, sigma);
}
""",
    "arK-arK": """
data {
  int<lower=0> K;
  int<lower=0> T;
  array[T] real y;
}
parameters {
  real alpha;
  vector[K] beta;
  real<lower=0> sigma;
}
model {
  alpha ~ normal(0, 10);
  beta ~ normal(0, 10);
  sigma ~ cauchy(0, 2.5);
  for (t in K + 1 : T) {
    real mean_t = alpha;
    for (k in 1 : K) mean_t += beta[k] * y[t - k];
    y[t] ~ normal(mean_t, sigma);
  }
}
""",
    "garch-garch11": """
data {
  int<lower=0> T;
  array[T] real y;
  real<lower=0> sigma1;
}
parameters {
  real mu;
  real<lower=0> alpha0;
  real<lower=0, upper=1> alpha1;
  real<lower=0, upper=1 - alpha1> beta1;
}
transformed parameters {
  array[T] real<lower=0> sigma;
  sigma[1] = sigma1;
  for (t in 2 : T)
    sigma[t] = sqrt(alpha0 + alpha1 * square(y[t - 1] - mu) + beta1 * square(sigma[t - 1]));
}
model {
  y ~ normal(mu, sigma);
}
""",
    "gp_pois_regr-gp_regr": """
data {
  int<lower=1> N;
  array[N] real x;
  vector[N] y;
}
parameters {
  real<lower=0> rho;
  real<lower=0> alpha;
  real<lower=0> sigma;
}
model {
  matrix[N, N] covariance = add_diag(gp_exp_quad_cov(x, alpha, rho), sigma);
  rho ~ gamma(25, 4);
  alpha ~ normal(0, 2);
  sigma ~ normal(0, 1);
  y ~ multi_normal_cholesky(rep_vector(0, N), cholesky_decompose(covariance));
}
""",
    "hmm_example-hmm_example": """
data {
  int<lower=0> N;
  int<lower=0> K;
  array[N] real y;
}
parameters {
  simplex[K] theta1;
  simplex[K] theta2;
  positive_ordered[K] mu;
}
model {
  matrix[K, K] log_rates;
  vector[K] log_forward;
  log_rates[1] = log(theta1)';
  log_rates[2] = log(theta2)';
  mu[1] ~ normal(3, 1);
  mu[2] ~ normal(10, 1);
  for (k in 1 : K) log_forward[k] = normal_lpdf(y[1] | mu[k], 1);
  for (t in 2 : N) {
    vector[K] new_forward;
    for (k in 1 : K)
      new_forward[k] = log_sum_exp(log_forward + log_rates[ : , k]) + normal_lpdf(y[t] | mu[k], 1);
    log_forward = new_forward;
  }
  target += log_sum_exp(log_forward);
}
""",
    "hudson_lynx_hare-lotka_volterra": """
functions {
  vector rates(real t, vector z, array[] real theta) {
    return [(theta[1] - theta[2] * z[2]) * z[1], (-theta[3] + theta[4] * z[1]) * z[2]]';
  }
}
data {
  int<lower=0> N;
  array[N] real ts;
  array[2] real y_init;
  array[N, 2] real<lower=0> y;
}
parameters {
  array[4] real<lower=0> theta;
  vector<lower=0>[2] z_init;
  array[2] real<lower=0> sigma;
}
model {
  array[N] vector[2] z = ode_rk45_tol(rates, z_init, 0.0, ts, 1e-5, 1e-3, 500, theta);
  theta[{1, 3}] ~ normal(1, 0.5);
  theta[{2, 4}] ~ normal(0.05, 0.05);
  sigma ~ lognormal(-1, 1);
  z_init ~ lognormal(log(10), 1);
  for (k in 1 : 2) {
    y_init[k] ~ lognormal(log(z_init[k]), sigma[k]);
    y[ : , k] ~ lognormal(log(z[ : , k]), sigma[k]);
  }
}
""",
    "earnings-logearn_interaction": _regression(
        "earn height male", "log(earn)", ["height", "male", "height .* male"]
    ),
    "kidiq-kidscore_interaction": _regression(
        "kid_score mom_hs mom_iq",
        "kid_score",
        ["mom_hs", "mom_iq", "mom_hs .* mom_iq"],
        "sigma ~ cauchy(0, 2.5);",
    ),
    "kidiq-kidscore_momhs": _regression(
        "kid_score mom_hs", "kid_score", ["mom_hs"], "sigma ~ cauchy(0, 2.5);"
    ),
    "mesquite-logmesquite_logvash": _regression(
        "weight diam1 diam2 canopy_height total_height group",
        "log(weight)",
        [
            "log(diam1 .* diam2 .* canopy_height)",
            "log(diam1 .* diam2)",
            "log(diam1 ./ diam2)",
            "log(total_height)",
            "group",
        ],
    ),
    "nes1980-nes": """
data {
  int<lower=0> N;
  vector[N] partyid7;
  vector[N] real_ideo;
  vector[N] race_adj;
  vector[N] educ1;
  vector[N] gender;
  vector[N] income;
  array[N] int age_discrete;
}
transformed data {
  matrix[N, 9] x;
  for (n in 1 : N) {
    x[n] = [1, real_ideo[n], race_adj[n], 0, 0, 0, educ1[n], gender[n], income[n]];
    if (age_discrete[n] > 1) x[n, age_discrete[n] + 2] = 1;
  }
}
parameters {
  vector[9] beta;
  real<lower=0> sigma;
}
model {
  partyid7 ~ normal_id_glm(x, 0, beta, sigma);
}
""",
    "low_dim_gauss_mix-low_dim_gauss_mix": """
data {
  int<lower=0> N;
  vector[N] y;
}
parameters {
  ordered[2] mu;
  array[2] real<lower=0> sigma;
  real<lower=0, upper=1> theta;
}
model {
  sigma ~ normal(0, 2);
  mu ~ normal(0, 2);
  theta ~ beta(5, 5);
  for (n in 1 : N)
    target += log_mix(theta, normal_lpdf(y[n] | mu[1], sigma[1]),
                      normal_lpdf(y[n] | mu[2], sigma[2]));
}
""",
    "sblrc-blr": """
data {
  int<lower=0> N;
  int<lower=0> D;
  matrix[N, D] X;
  vector[N] y;
}
parameters {
  vector[D] beta;
  real<lower=0> sigma;
}
model {
  beta ~ normal(0, 10);
  sigma ~ normal(0, 10);
  y ~ normal(X * beta, sigma);
}
""",
    "diamonds-diamonds": """
data {
  int<lower=1> N;
  vector[N] Y;
  int<lower=1> K;
  matrix[N, K] X;
}
transformed data {
  matrix[N, K - 1] centered;
  for (k in 2 : K) centered[ : , k - 1] = X[ : , k] - mean(X[ : , k]);
}
parameters {
  vector[K - 1] b;
  real Intercept;
  real<lower=0> sigma;
}
model {
  b ~ std_normal();
  Intercept ~ student_t(3, 8, 10);
  sigma ~ student_t(3, 0, 10);
  Y ~ normal_id_glm(centered, Intercept, b, sigma);
}
""",
}
