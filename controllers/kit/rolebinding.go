// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package kit

import (
	"context"
	"fmt"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// EnsureRoleBinding creates or updates a RoleBinding. If the existing one binds another role, it is deleted and created
// again, because roleRef is immutable. An existing RoleBinding that reader does not return is left unchanged, without
// an error, so the cache of reader should include all RoleBindings with the name of wanted.
func EnsureRoleBinding(ctx context.Context, reader client.Reader, writer client.Client,
	wanted *rbacv1.RoleBinding,
) error {
	key := client.ObjectKeyFromObject(wanted)
	current := &rbacv1.RoleBinding{}
	err := reader.Get(ctx, key, current)
	switch {
	case apierrors.IsNotFound(err):
	case err != nil:
		return fmt.Errorf("reading role binding %s: %w", key, err)
	case current.RoleRef != wanted.RoleRef:
		if err := Delete(ctx, writer, current); err != nil {
			return err
		}
	case equality.Semantic.DeepEqual(current.Subjects, wanted.Subjects):
		return nil
	default:
		// The controllers' roles allow the update of RoleBindings by name, and no patch.
		changed := current.DeepCopy()
		changed.Subjects = wanted.Subjects
		if err := writer.Update(ctx, changed); err != nil {
			return fmt.Errorf("updating role binding %s: %w", key, err)
		}
		return nil
	}
	if err := writer.Create(ctx, wanted); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("creating role binding %s: %w", key, err)
	}
	return nil
}
