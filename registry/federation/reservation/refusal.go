// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package reservation

import (
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/federation/apiserver/apis/federation"
	"liqo.io/federation/apiserver/quota"
)

// Exceeded returns the answer to a request for which a quota has no room: 403, as for a
// ResourceQuota, with a cause for each exhausted resource. Clients retry 429 by themselves,
// so no user would see the reason.
func Exceeded(resource, name string, err error, cause metav1.CauseType, short []quota.Shortage) error {
	answer := apierrors.NewForbidden(federation.Resource(resource), name, err)
	for _, shortage := range short {
		answer.ErrStatus.Details.Causes = append(answer.ErrStatus.Details.Causes, metav1.StatusCause{
			Type: cause, Field: string(shortage.Resource), Message: shortage.String(),
		})
	}
	return answer
}
