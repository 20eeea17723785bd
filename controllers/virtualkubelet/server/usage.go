// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"net/http"
	"slices"
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
	// usageTimeout is the time limit for reading the usage of all pods from the provider.
	usageTimeout = 5 * time.Second
	// usageAge is the time for which the provider's responses are cached.
	usageAge = 5 * time.Second
	// usageStale is the time after which a pod's metrics are dropped if their timestamp does not change.
	usageStale = 2 * time.Minute
	// initialSeconds is the lowest value of a CPU counter, in seconds. Clients interpret 0 as a missing value.
	initialSeconds = 0.001
	// maxScrapes is the maximum number of concurrent scrapes, and maxUsageReads the maximum number of concurrent requests
	// to the provider.
	maxScrapes, maxUsageReads = 4, 8
	// maxCores and maxBytes are upper bounds for the usage that a provider reports for a container.
	maxCores = 1 << 16
	maxBytes = 1 << 60
)

// The metrics have the names, labels and units that a kubelet uses at /metrics/resource.
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
		"1 if reading the usage from the provider failed, 0 otherwise",
		nil,
	)
)

func usageDesc(name, help string, labels []string) *metrics.Desc {
	return metrics.NewDesc(name, help, labels, nil, metrics.ALPHA, "")
}

// Usage serves the CPU and memory usage of the node's pods as the metrics of a kubelet, for metrics-server. A kubelet
// serves cumulative CPU counters, but the provider's metrics API returns rates, so Usage integrates the rates over
// time. If the provider does not serve the metrics API, there are no metrics of pods.
type Usage struct {
	metrics.BaseStableCollector

	pods     Pods
	provider metricsclient.PodMetricsesGetter
	// selector is the label selector for remote pods of this node.
	selector string
	clock    clock.PassiveClock
	logger   klog.Logger

	mu      sync.Mutex
	readAt  time.Time // when the provider was last read
	failed  bool      // whether a request of the last read failed
	seconds float64   // CPU seconds of all pods, including deleted ones
	cached  map[types.UID]*podUsage
}

// podUsage is the CPU and memory usage that the provider last reported for a pod.
type podUsage struct {
	*corev1.Pod
	timestamp metav1.Time // of the metrics, by the provider's clock
	changedAt time.Time   // the first read with this timestamp, by the local clock
	// containers has the usage of containers by name.
	containers map[string]*containerUsage
}

type containerUsage struct {
	started      time.Time // of the container; zero if unknown
	cores, bytes float64
	seconds      float64
	counted      time.Time // the time until which seconds includes the usage
}

// NewUsage returns a Usage of the local pods. The selector is the label selector for the remote pods of this node.
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
		cached:   map[types.UID]*podUsage{},
	}
}

// Handler returns the handler of /metrics/resource. It registers u as the collector and must be called only once.
func (u *Usage) Handler() http.Handler {
	registry := metrics.NewKubeRegistry()
	registry.CustomMustRegister(u)
	return metrics.HandlerFor(
		registry,
		metrics.HandlerOpts{ErrorHandling: metrics.ContinueOnError, MaxRequestsInFlight: maxScrapes},
	)
}

// DescribeWithStability implements metrics.StableCollector.
func (u *Usage) DescribeWithStability(to chan<- *metrics.Desc) {
	for _, desc := range []*metrics.Desc{
		nodeCPU, nodeMemory, containerCPU, containerBytes, containerStart, scrapeError,
	} {
		to <- desc
	}
}

// CollectWithStability implements metrics.StableCollector. It reads the usage from the provider if the cached usage is
// older than usageAge.
func (u *Usage) CollectWithStability(to chan<- metrics.Metric) {
	u.mu.Lock()
	defer u.mu.Unlock()
	now := u.clock.Now()
	if now.Sub(u.readAt) >= usageAge {
		u.read(now)
	}
	u.count(now)
	failed := 0.0
	if u.failed {
		failed = 1
	}
	to <- metrics.NewLazyConstMetric(scrapeError, metrics.GaugeValue, failed)
	send := func(desc *metrics.Desc, valueType metrics.ValueType, value float64, labels ...string) {
		to <- metrics.NewLazyMetricWithTimestamp(now, metrics.NewLazyConstMetric(desc, valueType, value, labels...))
	}
	bytes, reported := 0.0, false
	for _, pod := range u.cached {
		if pod.stale(now) {
			continue
		}
		for name, used := range pod.containers {
			send(containerCPU, metrics.CounterValue, used.seconds, name, pod.Name, pod.Namespace)
			send(containerBytes, metrics.GaugeValue, used.bytes, name, pod.Name, pod.Namespace)
			if !used.started.IsZero() {
				started := float64(used.started.UnixNano()) / 1e9
				to <- metrics.NewLazyConstMetric(
					containerStart, metrics.GaugeValue, started, name, pod.Name, pod.Namespace)
			}
			bytes, reported = bytes+used.bytes, true
		}
	}
	if reported {
		send(nodeCPU, metrics.CounterValue, u.seconds)
		send(nodeMemory, metrics.GaugeValue, bytes)
	}
}

// stale reports whether the timestamp of a pod's metrics has not changed for usageStale.
func (p *podUsage) stale(now time.Time) bool { return now.Sub(p.changedAt) >= usageStale }

// count increases the counters by the CPU usage since its last call.
func (u *Usage) count(now time.Time) {
	for _, pod := range u.cached {
		for _, used := range pod.containers {
			if elapsed := now.Sub(used.counted).Seconds(); elapsed > 0 && !pod.stale(now) {
				used.seconds += used.cores * elapsed
				u.seconds += used.cores * elapsed
			}
			used.counted = now
		}
	}
}

// read replaces the cached usage by the usage that the provider reports now for the node's pods. If a request fails,
// the usage of pods in that namespace remains until it is stale.
func (u *Usage) read(now time.Time) {
	ctx, cancel := context.WithTimeout(context.Background(), usageTimeout)
	defer cancel()
	localPods := map[string]map[string]*corev1.Pod{} // by remote namespace, then by name
	for _, pod := range u.pods.List() {
		if _, namespace := u.pods.Find(pod.Namespace, pod.Name); namespace != "" {
			if localPods[namespace] == nil {
				localPods[namespace] = map[string]*corev1.Pod{}
			}
			localPods[namespace][pod.Name] = pod
		}
	}
	var lists sync.Map // of *metricsv1beta1.PodMetricsList, by remote namespace
	var reads errgroup.Group
	reads.SetLimit(maxUsageReads)
	for namespace := range localPods {
		reads.Go(func() error {
			list, err := u.provider.PodMetricses(namespace).List(ctx, metav1.ListOptions{LabelSelector: u.selector})
			if apierrors.IsNotFound(err) {
				// The provider does not serve the metrics API.
				list, err = &metricsv1beta1.PodMetricsList{}, nil
			}
			if err != nil {
				u.logger.V(2).Info("Reading the usage of remote pods failed", "remoteNamespace", namespace, "err", err)
				return err
			}
			lists.Store(namespace, list)
			return nil
		})
	}
	u.failed = reads.Wait() != nil
	usage := map[types.UID]*podUsage{}
	for namespace, pods := range localPods {
		list, ok := lists.Load(namespace)
		if !ok {
			for _, pod := range pods {
				if before := u.cached[pod.UID]; before != nil {
					usage[pod.UID] = before
				}
			}
			continue
		}
		for _, reported := range list.(*metricsv1beta1.PodMetricsList).Items {
			if pod := pods[reported.Name]; pod != nil {
				usage[pod.UID] = u.update(pod, &reported, now)
			}
		}
	}
	u.cached, u.readAt = usage, u.clock.Now()
}

// update returns the usage of a pod that the provider reported, for the containers of the local pod and within maxCores
// and maxBytes. The counter of a container that started since the last report begins at its usage times its age,
// because clients divide the counter by the time since the start.
func (u *Usage) update(pod *corev1.Pod, reported *metricsv1beta1.PodMetrics, now time.Time) *podUsage {
	result := &podUsage{
		Pod: pod, timestamp: reported.Timestamp, changedAt: now, containers: map[string]*containerUsage{},
	}
	before := u.cached[pod.UID]
	if before != nil && before.timestamp.Equal(&reported.Timestamp) {
		result.changedAt = before.changedAt
	}
	for _, container := range reported.Containers {
		if !hasContainer(pod, container.Name) {
			continue
		}
		used := &containerUsage{
			started: startOf(pod, container.Name), counted: now,
			cores: clamp(container.Usage.Cpu().AsApproximateFloat64(), maxCores),
			bytes: clamp(container.Usage.Memory().AsApproximateFloat64(), maxBytes),
		}
		var last *containerUsage
		if before != nil {
			last = before.containers[container.Name]
		}
		switch {
		case last != nil && last.started.Equal(used.started):
			used.seconds, used.counted = last.seconds, last.counted
		case used.started.IsZero():
			used.seconds = initialSeconds
		default:
			used.seconds = max(initialSeconds, used.cores*now.Sub(used.started).Seconds())
		}
		result.containers[container.Name] = used
	}
	return result
}

func clamp(value, limit float64) float64 { return min(max(value, 0), limit) }

// startOf returns the start time of a container, or the zero time if it does not run.
func startOf(pod *corev1.Pod, name string) time.Time {
	for _, status := range slices.Concat(pod.Status.ContainerStatuses, pod.Status.InitContainerStatuses) {
		if status.Name == name && status.State.Running != nil {
			return status.State.Running.StartedAt.Time
		}
	}
	return time.Time{}
}
