// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package subresourcetest

import (
	"errors"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// ExpectStatus reports a test error unless err is an API status with this code whose message contains message.
func ExpectStatus(t testing.TB, err error, code int32, message string) {
	t.Helper()
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Code != code || !strings.Contains(err.Error(), message) {
		t.Errorf("got %v, want code %d with the message %q", err, code, message)
	}
}
