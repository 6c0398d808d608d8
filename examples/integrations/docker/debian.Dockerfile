# Debian has glibc: npm takes @ztensor/linux-x64-gnu or the package of the image's own processor. Both stages have the same libc.
FROM node:24-bookworm-slim AS packages
WORKDIR /app
COPY package.json package-lock.json ./
RUN npm ci --omit=dev

FROM node:24-bookworm-slim
WORKDIR /app
COPY --from=packages /app/node_modules ./node_modules
COPY . .
# The user `node` of the image, as a number, so that Kubernetes can see that it is not root.
USER 1000
CMD ["node", "main.mjs"]
