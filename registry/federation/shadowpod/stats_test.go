// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package shadowpod

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	stats "k8s.io/kubelet/pkg/apis/stats/v1alpha1"
	"k8s.io/utils/ptr"

	"liqo.io/federation/apiserver/apis/federation"
)

// oneShadowPod is a read-only store with the ShadowPod web.
type oneShadowPod struct{}

func (oneShadowPod) Get(_ context.Context, name string, _ *metav1.GetOptions) (runtime.Object, error) {
	if name != "web" {
		return nil, apierrors.NewNotFound(federation.Resource("shadowpods"), name)
	}
	return &federation.ShadowPod{ObjectMeta: metav1.ObjectMeta{Namespace: "demo-rome", Name: "web", UID: "shadow"}}, nil
}

func TestStatsDescribeThePodThatTheShadowPodControls(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "demo-rome", Name: "web", UID: "pod",
		OwnerReferences: []metav1.OwnerReference{{UID: "shadow", Controller: ptr.To(true)}},
	}}
	unrelated := pod.DeepCopy()
	unrelated.OwnerReferences = nil
	want := []stats.VolumeStats{{Name: "data", FsStats: stats.FsStats{UsedBytes: ptr.To[uint64](7)}}}
	volumes := func(_ context.Context, of *corev1.Pod) ([]stats.VolumeStats, error) {
		if of.UID != "pod" {
			return nil, errors.New("another pod")
		}
		return want, nil
	}
	for _, test := range []struct {
		name, shadow string
		pods         []runtime.Object
		volumes      Volumes
		refused      func(error) bool
	}{
		{name: "its pod", shadow: "web", pods: []runtime.Object{pod}, volumes: volumes},
		{name: "no shadow pod", shadow: "other", pods: []runtime.Object{pod}, volumes: volumes,
			refused: apierrors.IsNotFound},
		{name: "no pod", shadow: "web", volumes: volumes, refused: apierrors.IsNotFound},
		{name: "a pod of another controller", shadow: "web", pods: []runtime.Object{unrelated}, volumes: volumes,
			refused: apierrors.IsNotFound},
		{name: "no kubelet", shadow: "web", pods: []runtime.Object{pod},
			volumes: func(context.Context, *corev1.Pod) ([]stats.VolumeStats, error) {
				return nil, errors.New("milan-1 is secret")
			},
			refused: apierrors.IsServiceUnavailable},
	} {
		t.Run(test.name, func(t *testing.T) {
			served := NewStatsREST(oneShadowPod{}, fake.NewClientset(test.pods...).CoreV1(), test.volumes)
			handler, err := served.Connect(in(t.Context(), "demo-rome"), test.shadow, nil, nil)
			if test.refused != nil {
				if !test.refused(err) || strings.Contains(err.Error(), "milan-1") {
					t.Errorf("got %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			answer := httptest.NewRecorder()
			handler.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/", nil))
			var got stats.PodStats
			if err := json.Unmarshal(answer.Body.Bytes(), &got); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got.VolumeStats); diff != "" || got.PodRef.UID != "pod" {
				t.Errorf("volumes of pod %s (-want +got):\n%s", got.PodRef.UID, diff)
			}
		})
	}
}
