// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package reservation

import (
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/federation/apiserver/apis/federation"
	"liqo.io/federation/apiserver/quota"
	"liqo.io/federation/apiserver/trust"
)

// refusal returns the result of Kind.Refusal for an error of the ledger about an object of a consumer. It counts the
// refused object.
func (k *Kind[P, Q]) refusal(consumer, name string, err error) error {
	err = k.Refusal(name, err)
	if apierrors.IsForbidden(err) || apierrors.IsInvalid(err) {
		trust.CountRefusal(consumer, k.Resource, trust.RefusedByOffer)
	}
	return err
}

// Exceeded returns Forbidden with the message of err and a cause of type cause for each exceeded resource in short,
// like for an exceeded ResourceQuota. Clients would retry TooManyRequests without reporting the reason. resource and
// name identify the refused object.
func Exceeded(resource, name string, err error, cause metav1.CauseType, short []quota.Shortage) error {
	answer := apierrors.NewForbidden(federation.Resource(resource), name, err)
	for _, shortage := range short {
		answer.ErrStatus.Details.Causes = append(answer.ErrStatus.Details.Causes, metav1.StatusCause{
			Type: cause, Field: string(shortage.Resource), Message: shortage.String(),
		})
	}
	return answer
}
