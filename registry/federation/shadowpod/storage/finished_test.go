// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"context"
	"errors"
	"net/http"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"liqo.io/federation/registry/federation/ledger"
	"liqo.io/federation/test/etcd"
)

// tooMany are grants of a consumer that keeps too many finished shadow pods.
type tooMany struct{ Grants }

func (tooMany) Reserve(context.Context, string, types.UID, corev1.ResourceList) error {
	return &ledger.ErrTooManyFinished{Consumer: "milan", Finished: 1001, Most: 1000}
}

func TestARefusalForFinishedShadowPodsIsForbiddenAndSaysWhatToDo(t *testing.T) {
	s := start(t, etcd.Start(t), true)
	s.pods.grants = tooMany{s.pods.grants}
	s.mustRefuse(t, "web", "a", nil, "consumer milan keeps 1001 finished pods", "from 1000 on", "delete finished pods", "ttlSecondsAfterFinished")
	var status apierrors.APIStatus
	if err := s.create(t.Context(), "web", "a", nil); !errors.As(err, &status) || status.Status().Code != http.StatusForbidden {
		t.Errorf("got %v", err)
	}
	s.mustCreate(t, "not-lent", "a", nil)
}
