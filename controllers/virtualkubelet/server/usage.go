// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"net/http"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-base/metrics"
	"k8s.io/klog/v2"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"
	metricsclient "k8s.io/metrics/pkg/client/clientset/versioned/typed/metrics/v1beta1"
	"k8s.io/utils/clock"
)

const (
	// usagePatience bounds how long a provider may take to tell.
	usagePatience = 5 * time.Second
	// usageAge is how long its answer counts: whoever asks more often asks this
	// process alone.
	usageAge = 5 * time.Second
	// usageStale is how long a provider may tell the same of a pod, before that
	// counts as nothing.
	usageStale = 2 * time.Minute
	// usedToStart is what a container has used when it is heard of first, in
	// seconds: 0 would be taken for a figure that is missing.
	usedToStart = 0.001
	// maxScrapes are answered at a time, and maxQuestions asked.
	maxScrapes, maxQuestions = 4, 8
	// maxCores and maxBytes bound what a provider can say of a container.
	maxCores = 1 << 16
	maxBytes = 1 << 60
)

// Names, labels and units are those of a kubelet's /metrics/resource.
var (
	perContainer = []string{"container", "pod", "namespace"}

	nodeCPU = usageDesc(
		"node_cpu_usage_seconds_total",
		"Cumulative cpu time consumed by the pods of the node in core-seconds",
		nil,
	)
	nodeMemory = usageDesc(
		"node_memory_working_set_bytes",
		"Current working set of the pods of the node in bytes",
		nil,
	)
	containerCPU = usageDesc(
		"container_cpu_usage_seconds_total",
		"Cumulative cpu time consumed by the container in core-seconds",
		perContainer,
	)
	containerBytes = usageDesc(
		"container_memory_working_set_bytes",
		"Current working set of the container in bytes",
		perContainer,
	)
	containerStart = usageDesc(
		"container_start_time_seconds",
		"Start time of the container since unix epoch in seconds",
		perContainer,
	)
	scrapeError = usageDesc(
		"resource_scrape_error",
		"1 if there was an error while asking the provider for usage, 0 otherwise",
		nil,
	)
)

func usageDesc(name, help string, labels []string) *metrics.Desc {
	return metrics.NewDesc(name, help, labels, nil, metrics.ALPHA, "")
}

// Usage tells what the containers of the node's pods use, in the way of a
// kubelet, so that this cluster's autoscalers see them. The provider's metrics
// API, if it serves one, tells how much is used a second; a kubelet tells of
// counters that grow. So the counters here grow by what was used a second,
// for as long as has gone by.
type Usage struct {
	metrics.BaseStableCollector

	pods     Pods
	provider metricsclient.PodMetricsesGetter
	// selector selects the pods of this node in a provider's namespace.
	selector string
	clock    clock.PassiveClock
	logger   klog.Logger

	mu      sync.Mutex
	asked   time.Time // when the provider had been asked last
	failed  bool
	seconds float64 // of all pods that ever were
	known   map[types.UID]*podUsage
}

// podUsage is what a pod uses, as far as is known.
type podUsage struct {
	*corev1.Pod
	said metav1.Time // the provider's time of what it said last
	news time.Time   // when it said anything else than before
	// containers are those that are known of, by name.
	containers map[string]*containerUsage
}

type containerUsage struct {
	started      time.Time // zero: that is not known
	cores, bytes float64
	seconds      float64
	counted      time.Time // until when seconds have counted
}

// NewUsage makes the usage of the node's pods, which have the labels that the
// selector asks for on the provider.
func NewUsage(
	pods Pods,
	provider metricsclient.PodMetricsesGetter,
	selector string,
	clock clock.PassiveClock,
	logger klog.Logger,
) *Usage {
	return &Usage{
		pods:     pods,
		provider: provider,
		selector: selector,
		clock:    clock,
		logger:   logger,
		known:    map[types.UID]*podUsage{},
	}
}

// Handler serves the usage. It is to be called once.
func (u *Usage) Handler() http.Handler {
	registry := metrics.NewKubeRegistry()
	registry.CustomMustRegister(u)
	return metrics.HandlerFor(
		registry,
		metrics.HandlerOpts{ErrorHandling: metrics.ContinueOnError, MaxRequestsInFlight: maxScrapes},
	)
}

// DescribeWithStability describes what CollectWithStability collects.
func (u *Usage) DescribeWithStability(to chan<- *metrics.Desc) {
	for _, desc := range []*metrics.Desc{nodeCPU, nodeMemory, containerCPU, containerBytes, containerStart, scrapeError} {
		to <- desc
	}
}

// CollectWithStability asks the provider, and tells what is known then.
func (u *Usage) CollectWithStability(to chan<- metrics.Metric) {
	u.mu.Lock()
	defer u.mu.Unlock()
	now := u.clock.Now()
	if now.Sub(u.asked) >= usageAge {
		u.ask(now)
	}
	u.count(now)
	failed := 0.0
	if u.failed {
		failed = 1
	}
	to <- metrics.NewLazyConstMetric(scrapeError, metrics.GaugeValue, failed)
	tell := func(desc *metrics.Desc, of metrics.ValueType, value float64, labels ...string) {
		to <- metrics.NewLazyMetricWithTimestamp(now, metrics.NewLazyConstMetric(desc, of, value, labels...))
	}
	bytes, some := 0.0, false
	for _, pod := range u.known {
		if pod.stale(now) {
			continue
		}
		for name, used := range pod.containers {
			tell(containerCPU, metrics.CounterValue, used.seconds, name, pod.Name, pod.Namespace)
			tell(containerBytes, metrics.GaugeValue, used.bytes, name, pod.Name, pod.Namespace)
			if !used.started.IsZero() {
				to <- metrics.NewLazyConstMetric(containerStart, metrics.GaugeValue, float64(used.started.UnixNano())/1e9, name, pod.Name, pod.Namespace)
			}
			bytes, some = bytes+used.bytes, true
		}
	}
	if some {
		tell(nodeCPU, metrics.CounterValue, u.seconds)
		tell(nodeMemory, metrics.GaugeValue, bytes)
	}
}

// stale tells whether the provider has said nothing new of a pod for long.
func (p *podUsage) stale(now time.Time) bool { return now.Sub(p.news) >= usageStale }

// count has the counters grow up to now.
func (u *Usage) count(now time.Time) {
	for _, pod := range u.known {
		for _, used := range pod.containers {
			if elapsed := now.Sub(used.counted).Seconds(); elapsed > 0 && !pod.stale(now) {
				used.seconds += used.cores * elapsed
				u.seconds += used.cores * elapsed
			}
			used.counted = now
		}
	}
}

// ask asks the provider about the pods that the node has now, and forgets the
// others. Where it does not answer, what it said last counts for some time.
func (u *Usage) ask(now time.Time) {
	ctx, cancel := context.WithTimeout(context.Background(), usagePatience)
	defer cancel()
	twins := map[string]map[string]*corev1.Pod{} // by namespace there, by name
	for _, pod := range u.pods.List() {
		if _, twin := u.pods.Find(pod.Namespace, pod.Name); twin != "" {
			if twins[twin] == nil {
				twins[twin] = map[string]*corev1.Pod{}
			}
			twins[twin][pod.Name] = pod
		}
	}
	var answers sync.Map // of *metricsv1beta1.PodMetricsList, by namespace
	var questions errgroup.Group
	questions.SetLimit(maxQuestions)
	for twin := range twins {
		questions.Go(func() error {
			list, err := u.provider.PodMetricses(twin).List(ctx, metav1.ListOptions{LabelSelector: u.selector})
			if apierrors.IsNotFound(err) {
				// It has no metrics API.
				list, err = &metricsv1beta1.PodMetricsList{}, nil
			}
			if err != nil {
				u.logger.V(2).Info("The provider does not tell what pods use", "namespace", twin, "err", err)
				return err
			}
			answers.Store(twin, list)
			return nil
		})
	}
	u.failed = questions.Wait() != nil
	known := map[types.UID]*podUsage{}
	for twin, here := range twins {
		answer, ok := answers.Load(twin)
		if !ok {
			for _, pod := range here {
				if before := u.known[pod.UID]; before != nil {
					known[pod.UID] = before
				}
			}
			continue
		}
		for _, said := range answer.(*metricsv1beta1.PodMetricsList).Items {
			if pod := here[said.Name]; pod != nil {
				known[pod.UID] = u.heard(pod, &said, now)
			}
		}
	}
	u.known, u.asked = known, u.clock.Now()
}

// heard takes in what a provider says of a pod: of the containers that the pod
// has, and within bounds. One that was started since then has used what it uses
// for as long as it runs: readers compare its counter with its start.
func (u *Usage) heard(pod *corev1.Pod, said *metricsv1beta1.PodMetrics, now time.Time) *podUsage {
	result := &podUsage{Pod: pod, said: said.Timestamp, news: now, containers: map[string]*containerUsage{}}
	before := u.known[pod.UID]
	if before != nil && before.said.Equal(&said.Timestamp) {
		result.news = before.news
	}
	for _, container := range said.Containers {
		if !hasContainer(pod, container.Name) {
			continue
		}
		used := &containerUsage{
			started: startOf(pod, container.Name), counted: now,
			cores: within(container.Usage.Cpu().AsApproximateFloat64(), maxCores),
			bytes: within(container.Usage.Memory().AsApproximateFloat64(), maxBytes),
		}
		var last *containerUsage
		if before != nil {
			last = before.containers[container.Name]
		}
		switch {
		case last != nil && last.started.Equal(used.started):
			used.seconds, used.counted = last.seconds, last.counted
		case used.started.IsZero():
			used.seconds = usedToStart
		default:
			used.seconds = max(usedToStart, used.cores*now.Sub(used.started).Seconds())
		}
		result.containers[container.Name] = used
	}
	return result
}

func within(value, most float64) float64 { return min(max(value, 0), most) }

// startOf is when a container was started; zero while it does not run.
func startOf(pod *corev1.Pod, name string) time.Time {
	for _, statuses := range [][]corev1.ContainerStatus{pod.Status.ContainerStatuses, pod.Status.InitContainerStatuses} {
		for _, status := range statuses {
			if status.Name == name && status.State.Running != nil {
				return status.State.Running.StartedAt.Time
			}
		}
	}
	return time.Time{}
}
