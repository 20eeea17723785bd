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
	// volumesTimeout is the timeout for reading the volumes of all pods from the provider.
	volumesTimeout = 5 * time.Second
	// volumesAge is the time for which the responses are cached.
	volumesAge = 30 * time.Second
	// maxVolumeReads limits concurrent requests to the provider.
	maxVolumeReads = 8
	// maxPodStats is the maximum length of a response, in bytes.
	maxPodStats = 1 << 20
)

// Names, labels and units are those of a kubelet's /metrics.
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

// ReadVolumes returns the usage of the volumes of a remote pod. It fails if the request fails or the response is
// malformed.
type ReadVolumes func(ctx context.Context, namespace, name string) (*stats.PodStats, error)

// NewReadVolumes returns a ReadVolumes that uses a client of the provider's federation API and reads at most
// maxPodStats of a response.
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

// Volumes collects the usage of the volumes with claims of the node's pods in the metrics of a kubelet. It reads the
// provider on collection only, at most once per 30 seconds, and sends no request for a pod without claims.
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

// NewVolumes returns the volumes of pods, whose usage is read with read.
func NewVolumes(pods Pods, read ReadVolumes, clock clock.PassiveClock, logger klog.Logger) *Volumes {
	return &Volumes{pods: pods, read: read, clock: clock, logger: logger}
}

// Handler returns a handler of the usage of volumes and the metrics of others. It must be called once.
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

// CollectWithStability implements metrics.StableCollector. A claim that several pods mount is collected once.
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

// all returns the usage of volumes by the UID of their local pod, with references to local claims.
func (v *Volumes) all() map[types.UID][]stats.VolumeStats {
	v.mu.Lock()
	defer v.mu.Unlock()
	if now := v.clock.Now(); now.Sub(v.readAt) >= volumesAge {
		v.cached, v.readAt = v.readAll(), now
	}
	return v.cached
}

// readAll reads the usage from the provider. Pods whose read fails are omitted.
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
				// Providers of an older version do not serve the subresource.
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
	// The functions return no errors.
	_ = reads.Wait()
	return usage
}

// claimsOf returns the claims of a pod by the names of its volumes.
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

// localVolumes returns the reported usage of the volumes of a pod that have claims, each once and within bounds. A
// volume has the same name in both clusters; the remote claim is replaced by the local one.
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
