// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package shadowpod

import (
	"context"
	"encoding/json"
	"net/http"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/klog/v2"
	stats "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"liqo.io/federation/apiserver/apis/federation"
)

// Volumes returns the usage of those volumes of a pod that have a claim.
type Volumes func(ctx context.Context, pod *corev1.Pod) ([]stats.VolumeStats, error)

// StatsREST serves the subresource stats: the volume usage of the pod of a ShadowPod. The response is a PodStats of
// stats/v1alpha1, the kubelet's summary API. The usage is read from the kubelet, whose response is cached; see
// volumestats.Reader.
type StatsREST struct {
	shadowPods rest.Getter
	pods       corev1client.PodsGetter
	volumes    Volumes
}

// NewStatsREST returns the subresource stats. shadowPods is the store of ShadowPods, pods is a client of the local
// cluster, and volumes reads the usage from the kubelet.
func NewStatsREST(shadowPods rest.Getter, pods corev1client.PodsGetter, volumes Volumes) *StatsREST {
	return &StatsREST{shadowPods: shadowPods, pods: pods, volumes: volumes}
}

// New returns an empty ShadowPod.
func (r *StatsREST) New() runtime.Object { return &federation.ShadowPod{} }

// Destroy does nothing: the store belongs to the resource shadowpods.
func (r *StatsREST) Destroy() {}

// ConnectMethods returns the only HTTP method of the subresource, GET.
func (r *StatsREST) ConnectMethods() []string { return []string{http.MethodGet} }

// NewConnectOptions returns nil, because requests have no options.
func (r *StatsREST) NewConnectOptions() (runtime.Object, bool, string) { return nil, false, "" }

// Connect returns a handler that writes the volume usage of the pod. It fails with NotFound if the ShadowPod or its pod
// does not exist, and with ServiceUnavailable if the kubelet cannot be read.
func (r *StatsREST) Connect(
	ctx context.Context, name string, _ runtime.Object, _ rest.Responder,
) (http.Handler, error) {
	shadow, err := r.shadowPods.Get(ctx, name, &metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	namespace := genericapirequest.NamespaceValue(ctx)
	pod, err := r.pods.Pods(namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || err == nil && !metav1.IsControlledBy(pod, shadow.(*federation.ShadowPod)) {
		return nil, apierrors.NewNotFound(corev1.Resource("pods"), name)
	}
	if err != nil {
		return nil, err
	}
	volumes, err := r.volumes(ctx, pod)
	if err != nil {
		// The error may contain names of nodes, which the consumer must not receive.
		klog.FromContext(ctx).Error(err, "Unable to read the usage of volumes", "pod", klog.KObj(pod))
		return nil, apierrors.NewServiceUnavailable("the usage of the volumes cannot be read from the node of the pod: " +
			"see the log of the provider's API server")
	}
	answer, err := json.Marshal(stats.PodStats{
		PodRef:      stats.PodReference{Namespace: namespace, Name: name, UID: string(pod.UID)},
		StartTime:   pod.CreationTimestamp,
		VolumeStats: volumes,
	})
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if _, err := w.Write(answer); err != nil {
			klog.FromContext(request.Context()).V(4).Info("Unable to write the usage of volumes", "err", err)
		}
	}), nil
}

var _ rest.Connecter = &StatsREST{}
