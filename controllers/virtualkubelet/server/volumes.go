// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/component-base/metrics"
	"k8s.io/component-helpers/storage/ephemeral"
	"k8s.io/klog/v2"
	stats "k8s.io/kubelet/pkg/apis/stats/v1alpha1"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
)

const (
	// volumesTimeout is the time limit for reading the usage of all volumes from the provider.
	volumesTimeout = 5 * time.Second
	// volumesAge is the time for which the provider's responses are cached.
	volumesAge = 30 * time.Second
	// maxVolumeReads is the maximum number of concurrent requests to the provider.
	maxVolumeReads = 8
	// maxPodStats is the maximum size, in bytes, of a response with the usage of the volumes of one pod.
	maxPodStats = 1 << 20
)

// The metrics have the names, labels and units that a kubelet uses at /metrics.
var (
	perClaim = []string{"namespace", "persistentvolumeclaim"}

	volumeFigures = []struct {
		desc *metrics.Desc
		of   func(*stats.FsStats) *uint64
	}{
		{
			volumeDesc("capacity_bytes", "Capacity in bytes of the volume"),
			func(s *stats.FsStats) *uint64 { return s.CapacityBytes },
		},
		{
			volumeDesc("available_bytes", "Number of available bytes in the volume"),
			func(s *stats.FsStats) *uint64 { return s.AvailableBytes },
		},
		{
			volumeDesc("used_bytes", "Number of used bytes in the volume"),
			func(s *stats.FsStats) *uint64 { return s.UsedBytes },
		},
		{
			volumeDesc("inodes", "Maximum number of inodes in the volume"),
			func(s *stats.FsStats) *uint64 { return s.Inodes },
		},
		{
			volumeDesc("inodes_free", "Number of free inodes in the volume"),
			func(s *stats.FsStats) *uint64 { return s.InodesFree },
		},
		{
			volumeDesc("inodes_used", "Number of used inodes in the volume"),
			func(s *stats.FsStats) *uint64 { return s.InodesUsed },
		},
	}
)

func volumeDesc(name, help string) *metrics.Desc {
	return metrics.NewDesc("kubelet_volume_stats_"+name, help, perClaim, nil, metrics.ALPHA, "")
}

// ReadVolumes returns the usage of the volumes of the remote pod with this namespace and name. It fails if the request
// fails or the response is not valid JSON.
type ReadVolumes func(ctx context.Context, namespace, name string) (*stats.PodStats, error)

// NewReadVolumes returns a ReadVolumes that reads the subresource stats of shadow pods from the provider, at most
// maxPodStats bytes.
func NewReadVolumes(client rest.Interface) ReadVolumes {
	return func(ctx context.Context, namespace, name string) (*stats.PodStats, error) {
		request := client.Get().Namespace(namespace).Resource("shadowpods").Name(name).SubResource("stats")
		body, err := request.Stream(ctx)
		if err != nil {
			return nil, err
		}
		defer body.Close()
		result := &stats.PodStats{}
		if err := json.NewDecoder(io.LimitReader(body, maxPodStats)).Decode(result); err != nil {
			return nil, fmt.Errorf("decoding the usage of volumes: %w", err)
		}
		return result, nil
	}
}

// Volumes serves the usage of claims that the node's pods mount as the metrics of a kubelet. It reads from the provider
// only when metrics are collected, at most once per volumesAge, and only for pods with claims.
type Volumes struct {
	metrics.BaseStableCollector

	pods   Pods
	read   ReadVolumes
	clock  clock.PassiveClock
	logger klog.Logger

	mu     sync.Mutex
	readAt time.Time
	cached map[types.UID][]stats.VolumeStats
}

// NewVolumes returns a Volumes of the local pods, which calls read for their usage.
func NewVolumes(pods Pods, read ReadVolumes, clock clock.PassiveClock, logger klog.Logger) *Volumes {
	return &Volumes{pods: pods, read: read, clock: clock, logger: logger}
}

// Handler returns a handler that serves the usage of volumes, and the metrics of another gatherer. It registers v as
// the collector and must be called only once.
func (v *Volumes) Handler(others metrics.Gatherer) http.Handler {
	registry := metrics.NewKubeRegistry()
	registry.CustomMustRegister(v)
	return metrics.HandlerFor(prometheus.Gatherers{others, registry},
		metrics.HandlerOpts{ErrorHandling: metrics.ContinueOnError, MaxRequestsInFlight: maxScrapes})
}

// DescribeWithStability implements metrics.StableCollector.
func (v *Volumes) DescribeWithStability(to chan<- *metrics.Desc) {
	for _, figure := range volumeFigures {
		to <- figure.desc
	}
}

// CollectWithStability implements metrics.StableCollector. It reports the usage of a claim once, also if several pods
// mount it.
func (v *Volumes) CollectWithStability(to chan<- metrics.Metric) {
	collected := map[stats.PVCReference]bool{}
	for _, volumes := range v.all() {
		for i := range volumes {
			claim := *volumes[i].PVCRef
			if collected[claim] {
				continue
			}
			collected[claim] = true
			for _, figure := range volumeFigures {
				value := figure.of(&volumes[i].FsStats)
				if value == nil {
					continue
				}
				to <- metrics.NewLazyConstMetric(
					figure.desc, metrics.GaugeValue, float64(*value), claim.Namespace, claim.Name)
			}
		}
	}
}

// all returns the usage of volumes by the UID of the local pod, with references to local claims. It reads the provider
// if the cached usage is older than volumesAge.
func (v *Volumes) all() map[types.UID][]stats.VolumeStats {
	v.mu.Lock()
	defer v.mu.Unlock()
	if now := v.clock.Now(); now.Sub(v.readAt) >= volumesAge {
		v.cached, v.readAt = v.readAll(), now
	}
	return v.cached
}

// readAll reads the usage of volumes from the provider. Pods for which a request fails are omitted.
func (v *Volumes) readAll() map[types.UID][]stats.VolumeStats {
	ctx, cancel := context.WithTimeout(context.Background(), volumesTimeout)
	defer cancel()
	usage := map[types.UID][]stats.VolumeStats{}
	var mu sync.Mutex
	var reads errgroup.Group
	reads.SetLimit(maxVolumeReads)
	for _, pod := range v.pods.List() {
		claims := claimsOf(pod)
		_, namespace := v.pods.Find(pod.Namespace, pod.Name)
		if len(claims) == 0 || namespace == "" || v.pods.RemoteStatus(pod.Namespace, pod.Name) == nil {
			continue
		}
		reads.Go(func() error {
			reported, err := v.read(ctx, namespace, pod.Name)
			if err != nil {
				// Older providers do not serve the subresource.
				if !apierrors.IsNotFound(err) {
					v.logger.V(2).Info("Reading the usage of volumes failed", "pod", klog.KObj(pod), "err", err)
				}
				return nil
			}
			mu.Lock()
			defer mu.Unlock()
			usage[pod.UID] = localVolumes(pod, claims, reported)
			return nil
		})
	}
	// The functions passed to Go return nil.
	_ = reads.Wait()
	return usage
}

// claimsOf returns the names of the local claims that a pod uses, by the name of the volume.
func claimsOf(pod *corev1.Pod) map[string]string {
	claims := map[string]string{}
	for i := range pod.Spec.Volumes {
		switch volume := &pod.Spec.Volumes[i]; {
		case volume.PersistentVolumeClaim != nil:
			claims[volume.Name] = volume.PersistentVolumeClaim.ClaimName
		case volume.Ephemeral != nil:
			claims[volume.Name] = ephemeral.VolumeClaimName(pod, volume)
		}
	}
	return claims
}

// localVolumes returns the reported usage of a pod's volumes with claims, each amount at most maxBytes. claims maps the
// names of volumes to the names of local claims. A volume has the same name in both clusters; the reference to the
// remote claim is replaced by the local claim. A volume that is reported twice is returned once.
func localVolumes(pod *corev1.Pod, claims map[string]string, reported *stats.PodStats) []stats.VolumeStats {
	var volumes []stats.VolumeStats
	seen := map[string]bool{}
	for i := range reported.VolumeStats {
		volume := reported.VolumeStats[i]
		claim, ok := claims[volume.Name]
		if !ok || seen[volume.Name] {
			continue
		}
		seen[volume.Name] = true
		volumes = append(volumes, stats.VolumeStats{
			Name:   volume.Name,
			PVCRef: &stats.PVCReference{Namespace: pod.Namespace, Name: claim},
			FsStats: stats.FsStats{
				Time:           volume.Time,
				CapacityBytes:  bounded(volume.CapacityBytes),
				AvailableBytes: bounded(volume.AvailableBytes),
				UsedBytes:      bounded(volume.UsedBytes),
				Inodes:         bounded(volume.Inodes),
				InodesFree:     bounded(volume.InodesFree),
				InodesUsed:     bounded(volume.InodesUsed),
			},
		})
	}
	return volumes
}

func bounded(value *uint64) *uint64 {
	if value == nil {
		return nil
	}
	return ptr.To(min(*value, maxBytes))
}
