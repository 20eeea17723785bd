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
	// volumesTimeout bounds how long the provider may take for the volumes of all pods.
	volumesTimeout = 5 * time.Second
	// volumesAge is how long its answers are used.
	volumesAge = 30 * time.Second
	// maxVolumeReads are sent to the provider at a time.
	maxVolumeReads = 8
	// maxPodStats bounds an answer of the provider, in bytes.
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

// ReadVolumes returns the usage of the volumes of the remote pod of a name in a remote
// namespace.
type ReadVolumes func(ctx context.Context, namespace, name string) (*stats.PodStats, error)

// NewReadVolumes returns a function that reads the usage of volumes with a client of the
// provider's federation API. It bounds the answer.
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
			return nil, fmt.Errorf("reading the usage of volumes: %w", err)
		}
		return result, nil
	}
}

// Volumes reports how full the volumes of the node's pods are, as a kubelet does, for
// those that have claims. It reads the provider only when it is read itself, at most
// once in 30 seconds, and sends no request for a pod without claims.
type Volumes struct {
	metrics.BaseStableCollector

	pods   Pods
	read   ReadVolumes
	clock  clock.PassiveClock
	logger klog.Logger

	mu     sync.Mutex
	readAt time.Time
	known  map[types.UID][]stats.VolumeStats
}

// NewVolumes returns the volumes of pods, whose usage is read by read.
func NewVolumes(pods Pods, read ReadVolumes, clock clock.PassiveClock, logger klog.Logger) *Volumes {
	return &Volumes{pods: pods, read: read, clock: clock, logger: logger}
}

// Handler serves the usage of volumes together with the metrics of others. It is to be
// called once.
func (v *Volumes) Handler(others metrics.Gatherer) http.Handler {
	registry := metrics.NewKubeRegistry()
	registry.CustomMustRegister(v)
	return metrics.HandlerFor(prometheus.Gatherers{others, registry},
		metrics.HandlerOpts{ErrorHandling: metrics.ContinueOnError, MaxRequestsInFlight: maxScrapes})
}

// DescribeWithStability describes what CollectWithStability collects.
func (v *Volumes) DescribeWithStability(to chan<- *metrics.Desc) {
	for _, figure := range volumeFigures {
		to <- figure.desc
	}
}

// CollectWithStability collects the figures of each claim once, also if several pods
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

// all returns the usage of volumes by the UID of their pod. The claims are those of this
// cluster.
func (v *Volumes) all() map[types.UID][]stats.VolumeStats {
	v.mu.Lock()
	defer v.mu.Unlock()
	if now := v.clock.Now(); now.Sub(v.readAt) >= volumesAge {
		v.known, v.readAt = v.readAll(), now
	}
	return v.known
}

// readAll reads the usage from the provider. What cannot be read is left out.
func (v *Volumes) readAll() map[types.UID][]stats.VolumeStats {
	ctx, cancel := context.WithTimeout(context.Background(), volumesTimeout)
	defer cancel()
	known := map[types.UID][]stats.VolumeStats{}
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
			answer, err := v.read(ctx, namespace, pod.Name)
			if err != nil {
				// A provider of a version before does not serve it.
				if !apierrors.IsNotFound(err) {
					v.logger.V(2).Info("Volumes of a pod are not reported", "pod", klog.KObj(pod), "err", err)
				}
				return nil
			}
			mu.Lock()
			defer mu.Unlock()
			known[pod.UID] = localVolumes(pod, claims, answer)
			return nil
		})
	}
	// The functions return no errors.
	_ = reads.Wait()
	return known
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

// localVolumes returns what the provider reports about the volumes of a pod that have
// claims, each once and within bounds. A volume has the same name in both clusters, and
// its claim is named as in this one.
func localVolumes(pod *corev1.Pod, claims map[string]string, answer *stats.PodStats) []stats.VolumeStats {
	var volumes []stats.VolumeStats
	seen := map[string]bool{}
	for i := range answer.VolumeStats {
		volume := answer.VolumeStats[i]
		claim, known := claims[volume.Name]
		if !known || seen[volume.Name] {
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
