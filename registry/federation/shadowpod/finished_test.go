// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package shadowpod

import (
	"errors"
	"fmt"
	"net/http"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/test/etcd"
)

func TestRefusalForFinishedShadowPodsIsForbiddenAndNamesTheRemedy(t *testing.T) {
	s := start(t, etcd.Start(t), true)
	s.offer(t, "milan", "rome", amounts("pods", "1"))
	for i := range 1000 {
		pod := shadowPod("web", "finished", nil)
		// Created ignores an object whose revision the watch has passed, so the revision must be very high.
		pod.UID, pod.ResourceVersion = types.UID(fmt.Sprint(i)), "1000000000"
		pod.Status.ForeignCluster, pod.Status.Phase = "milan", corev1.PodSucceeded
		s.quotas.Created(pod.UID, pod)
	}
	s.mustRefuse(t, "shop", "a", nil, "consumer milan keeps 1000 finished pods", "accepted below 1000",
		"delete finished pods", "ttlSecondsAfterFinished")
	var status apierrors.APIStatus
	if err := s.create(t.Context(), "web", "a", nil); !errors.As(err, &status) ||
		status.Status().Code != http.StatusForbidden || !apierrors.HasStatusCause(err, v1alpha1.CauseTooManyFinished) {
		t.Errorf("got %v", err)
	}
	s.mustCreate(t, "local", "a", nil)
}
